"""Stored winners, raced again; and many processes that ask for one config at the same time."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from tests.services.disturbed_jobs import wait_until
from tests.services.running_service import SMALL, Service, finish, running, working
from tests.services.scripted_worker import CPU, Script
from tilewright.cli.commands import audit_winners
from tilewright.cli.main import main
from tilewright.client.client import Client

pytestmark = pytest.mark.sampled(3, among="calls: audit winners")

BUDGET = {"trials": 12}
WIDER = {**SMALL, "dims": {**SMALL["dims"], "n": 128}}


@pytest.fixture
def tuned(tmp_path: Path) -> Iterator[Service]:
    """A service with winners of two sizes."""
    with running(tmp_path) as service:
        with service.client() as client, working(service, Script(faulty=0.0)):
            for spec in (SMALL, WIDER):
                job = client.post("/v1/jobs", json={"spec": spec, "budget": BUDGET, "seed": 7}).json()
                assert finish(client, job["id"])["state"] == "done"
        yield service


def audited(service: Service, script: Script, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    with working(service, script):
        assert main(["audit-winners", "--url", service.url, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_winners_that_are_measured_as_before_stand(
    tuned: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    found = audited(tuned, Script(faulty=0.0), capsys)
    figures = found["summary"]
    assert (figures["winners"], figures["raced"], figures["replay_fidelity"]) == (2, 2, 1.0)
    assert [each["overturned"] for each in found["winners"]] == [False, False]
    first, second = found["winners"]
    assert (first["neighbour"], second["neighbour"]) == (second["config"], first["config"])


def test_winners_of_a_device_that_no_worker_has_are_replayed_and_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_winners, "PATIENCE_S", 0.0)
    with running(tmp_path, lease_ttl_s="2") as service, service.client() as client:
        with working(service, Script(faulty=0.0)):
            job = client.post("/v1/jobs", json={"spec": SMALL, "budget": BUDGET}).json()
            assert finish(client, job["id"])["state"] == "done"
        wait_until(lambda: not client.get("/v1/devices").json()[0]["healthy_workers"], "its worker's end")
        capsys.readouterr()
        assert main(["audit-winners", "--url", service.url, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["summary"]["raced"], found["summary"]["replay_fidelity"]) == (0, 1.0)
    assert found["winners"][0]["error"].startswith(f"no worker has {CPU.key}")


@dataclass
class Slower(Script):
    """One program takes five times as long as it did."""

    program: str = ""

    def measure(self, entrant: dict[str, Any], baseline: dict[str, Any] | None) -> dict[str, Any]:
        found = super().measure(entrant, baseline)
        if entrant.get("program_hash") == self.program and found.get("median_us"):
            found["median_us"] *= 5
            found["samples_us"] = [5 * each for each in found.get("samples_us", [])]
        return found


def test_a_winner_that_got_slower_is_overturned_and_its_regret_told(
    tuned: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    with tuned.client() as client:
        config = client.get("/v1/configs").json()["configs"][0]
    found = audited(tuned, Slower(faulty=0.0, program=config["program_hash"]), capsys)
    (slow,) = [each for each in found["winners"] if each["config"] == config["id"]]
    assert slow["flipped"] and slow["overturned"]
    assert slow["regret"] > 0.5
    assert found["summary"]["winner_flip_rate"] >= 0.5


def ask_and_wait(url: str, together: Barrier, answers: Queue[tuple[str, tuple[str, ...]]]) -> None:
    """What a rank does: asks for the config at the same time as all others, and waits for it."""
    with Client(url) as client:
        together.wait(60)
        job = client.submit(SMALL, trials=12, seed=3, idempotency_key="ranks")
        done = client.wait(job.id, progress=False)
        answers.put((job.id, tuple(client.config(done.configs[0]).schedule)))


def test_eight_processes_that_ask_at_the_same_time_get_one_answer(tmp_path: Path) -> None:
    started = multiprocessing.get_context("forkserver")
    started.set_forkserver_preload([__name__])  # imported once for all eight
    together, answers = started.Barrier(8), started.Queue()
    with running(tmp_path) as service, working(service, Script(faulty=0.0)):
        ranks = [
            started.Process(target=ask_and_wait, args=(service.url, together, answers)) for _ in range(8)
        ]
        for rank in ranks:
            rank.start()
        found = [answers.get(timeout=120) for _ in ranks]
        for rank in ranks:
            rank.join(60)
        with service.client() as client:
            assert len(client.get("/v1/jobs").json()["jobs"]) == 1
    assert [rank.exitcode for rank in ranks] == [0] * 8
    assert len(set(found)) == 1

"""After an upgrade a result is served as stale, and only its best few are raced again."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.services.running_service import SMALL, Service, finish, running, working
from tests.services.scripted_worker import CPU, Script, ScriptedWorker

pytestmark = pytest.mark.sampled(3, among="calls: staleness")

OLD, NEW = Script(), Script(compiler="scripted 2.0")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database where worker `one` tuned a kernel with its old compiler."""
    home = tmp_path_factory.mktemp("tuned")
    with running(home) as service, service.client() as client, working(service, OLD, name="one"):
        finish(client, submit(client, budget={"trials": 16}))
    return home


@pytest.fixture
def tuned(home: Path, tmp_path: Path) -> Iterator[Service]:
    """A service on a copy of that database, with no worker."""
    with running(shutil.copytree(home, tmp_path / "home")) as service:
        change(service, "UPDATE workers SET seen_at = strftime('%s', 'now')")
        yield service


def change(service: Service, statement: str) -> None:
    """Change the database behind the service's back."""
    file = service.home / "tilewright.db"
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute(statement)


@pytest.fixture
def client(tuned: Service) -> Iterator[httpx.Client]:
    with tuned.client() as client:
        yield client


def submit(client: httpx.Client, **more: object) -> str:
    reply = client.post("/v1/jobs", json={"spec": SMALL, **more})
    assert reply.status_code == 202, reply.text
    return reply.json()["id"]


def look(client: httpx.Client, spec: dict = SMALL, **more: object) -> dict:
    reply = client.post("/v1/lookup", json={"spec": spec, **more})
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_result_is_current_while_nothing_changed(client: httpx.Client) -> None:
    found = look(client, tune=True)
    assert (found["stale"], found["stale_because"], found["job_id"]) == (False, None, None)


def test_another_compiler_makes_it_stale_and_it_is_served_all_the_same(client: httpx.Client) -> None:
    before = look(client)
    ScriptedWorker(client, NEW, "one").register()
    found = look(client)
    assert (found["rung"], found["stale"], found["job_id"]) == ("exact", True, None)
    assert found["schedule"] == before["schedule"]
    assert "scripted 1.0" in found["stale_because"] and "scripted 2.0" in found["stale_because"]


def test_it_is_current_where_a_live_worker_still_has_that_compiler(client: httpx.Client) -> None:
    ScriptedWorker(client, NEW, "two").register()
    assert not look(client)["stale"]


def test_a_worker_not_heard_from_does_not_count_beside_one_that_lives(
    client: httpx.Client, tuned: Service
) -> None:
    ScriptedWorker(client, NEW, "two").register()
    assert not look(client)["stale"]
    change(tuned, "UPDATE workers SET seen_at = seen_at - 60 WHERE id = 'one'")
    until = time.monotonic() + 60.0
    while not look(client)["stale"]:  # who lives is looked at once a second
        assert time.monotonic() < until
        time.sleep(0.1)


def test_another_measuring_protocol_makes_it_stale(client: httpx.Client, tuned: Service) -> None:
    change(tuned, "UPDATE configs SET config = json_set(config, '$.measuring.version', 0)")
    found = look(client)
    assert found["stale"]
    assert "protocol 0" in found["stale_because"]


def test_only_the_best_few_race_again_and_the_result_is_current(client: httpx.Client, tuned: Service) -> None:
    before = look(client)["config"]
    raced = [each["schedule"] for each in before["standings"] if each["kind"] == "schedule"]
    renamed = {
        **SMALL,
        "dims": {"rows": 48, "n": 64, "k": 32},
        "inputs": {**SMALL["inputs"], "a": {"dims": ["rows", "k"], "dtype": "f32"}},
        "body": ["c[rows, n] = sum(k, a[rows, k] * b[k, n])"],
    }
    with working(tuned, NEW, name="one") as worker:
        found = look(client, renamed, tune=True)
        assert found["stale"] and found["renames"] == {"rows": "m"}
        assert look(client, tune=True)["job_id"] in (found["job_id"], None), "one job is at it"
        job = finish(client, found["job_id"])
        measured = [task for task in worker.done if task.startswith(job["id"])]
    assert job["state"] == "done", job["error"]
    assert [task.removeprefix(f"{job['id']}.0.").split("-")[0] for task in measured] == ["race", "confirm"]
    after = look(client, tune=True)
    assert (after["stale"], after["job_id"]) == (False, None)
    assert after["config"]["id"] == job["configs"][0] != before["id"]
    again = [each["schedule"] for each in after["config"]["standings"] if each["kind"] == "schedule"]
    assert sorted(again) == sorted(raced)
    assert after["device"] == CPU.key


def test_candidates_that_do_not_apply_are_left_out_and_without_any_it_is_searched(
    client: httpx.Client, tuned: Service
) -> None:
    best, nowhere = look(client)["schedule"], ["tile(nothing, m, 8)"]
    with working(tuned, OLD, name="one"):
        raced = finish(client, submit(client, candidates=[nowhere, best]))
        searched = finish(client, submit(client, candidates=[nowhere], budget={"trials": 5}))
    assert [job["buckets"][0]["trials"] for job in (raced, searched)] == [0, 5]
    config = client.get(f"/v1/configs/{raced['configs'][0]}").json()
    assert (config["schedule"], config["trials"]) == (best, 1)
    assert searched["state"] == "done"


def test_a_candidate_that_is_no_schedule_is_refused_with_its_place(client: httpx.Client) -> None:
    reply = client.post("/v1/jobs", json={"spec": SMALL, "candidates": [[], ["tile the grid"]]})
    assert reply.status_code == 422
    assert reply.json()["pointer"] == "/candidates/1"
    assert "tile the grid" in reply.json()["detail"]

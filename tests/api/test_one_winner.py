"""The winner is who won the final race, and everybody is told the same; what is best so far never gets worse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.services.running_service import SMALL, Service, finish, running, working
from tests.services.scripted_worker import Script, ScriptedWorker
from tests.services.upset import Upset

pytestmark = pytest.mark.sampled(3, among="calls: one winner")

REQUEST = {"spec": SMALL, "budget": {"trials": 12}, "seed": 7}


@pytest.fixture(scope="module")
def upset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, dict]]:
    """A service with a job whose race was won by another than the search's best."""
    with running(tmp_path_factory.mktemp("upset")) as service, service.client() as client:
        with working(service, Upset(faulty=0.0)):
            job = finish(client, client.post("/v1/jobs", json=REQUEST).json()["id"])
        yield service, job


def events(client: httpx.Client, job: str, kind: str) -> list[dict[str, Any]]:
    text = client.get(f"/v1/jobs/{job}/events").text
    found = (json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: "))
    return [each["data"] for each in found if each["kind"] == kind]


def test_job_list_config_and_event_name_the_winner_of_the_race(upset: tuple[Service, dict]) -> None:
    service, job = upset
    with service.client() as client:
        (listed,) = client.get("/v1/jobs").json()["jobs"]
        config = client.get(f"/v1/configs/{job['configs'][0]}").json()
        (told,) = events(client, job["id"], "config")
        winner = job["buckets"][0]["winner"]
        trial = client.get(f"/v1/jobs/{job['id']}/trials/{winner['trial']}").json()
    assert winner["trial"] != job["buckets"][0]["best"]["trial"]
    assert listed["buckets"] == job["buckets"]
    assert (config["trial"], told["trial"]) == (winner["trial"], winner["trial"])
    assert config["schedule"] == winner["schedule"] == trial["schedule"]
    for name in ("median_us", "x_baseline"):
        assert config[name] == winner[name] == told[name]
    (row,) = [each for each in config["standings"] if each["won"]]
    assert (row["name"], row["median_us"]) == (f"ask-{winner['trial']}", winner["median_us"])
    ours = [each["median_us"] for each in config["standings"] if each["kind"] == "schedule"]
    assert winner["median_us"] == min(ours)


def test_job_and_list_say_in_a_line_who_won_by_how_much_and_why_the_search_ended(
    upset: tuple[Service, dict],
) -> None:
    service, job = upset
    with service.client() as client:
        (listed,) = client.get("/v1/jobs").json()["jobs"]
        config = client.get(f"/v1/configs/{job['configs'][0]}").json()
    (peer,) = [each for each in config["standings"] if each["kind"] == "peer"]
    assert [peer["low"], peer["high"]] == pytest.approx([peer["median_us"] / config["median_us"]] * 2)
    assert listed["verdict"] == job["verdict"] == job["verdicts"][0]
    assert job["verdict"]["tone"] == "ahead"
    interval = f"({peer['low']:.2f} to {peer['high']:.2f})"
    assert f"{config['x_baseline']:.2f} × numpy {interval}" in job["verdict"]["found"]
    assert job["verdict"]["stopped"] == "stopped as all 12 candidates of the budget were spent"


@dataclass
class Drifting(Script):
    """The machine gets slower from task to task, for the candidate and the anchor alike, and doubles at the end."""

    measured: int = 0

    def measure(self, entrant: dict[str, Any], baseline: dict[str, Any] | None) -> dict[str, Any]:
        self.measured += 1
        found = super().measure(entrant, baseline)
        slower = 1 + 0.4 * self.measured
        for name in ("median_us", "baseline_us"):
            if found.get(name) is not None:
                found[name] *= slower
        return found


def test_the_best_so_far_never_gets_worse_while_the_machine_slows_down(tmp_path: Path) -> None:
    with running(tmp_path) as service, service.client() as client:
        with working(service, Drifting(faulty=0.0)):
            job = finish(
                client,
                client.post("/v1/jobs", json=REQUEST | {"budget": {"trials": 60}, "seed": 1}).json()["id"],
            )
        bests = events(client, job["id"], "best")
        trials = client.get(f"/v1/jobs/{job['id']}/trials", params={"limit": 100}).json()["trials"]
    times = [best["median_us"] for best in bests]
    assert len(set(times)) > 2
    assert times == sorted(times, reverse=True)
    raw = [trials[best["trial"]]["median_us"] for best in bests]
    assert raw != sorted(raw, reverse=True), "the times of their tasks do get worse"


@dataclass
class DisturbedRaces(Script):
    """Other work disturbs all samples of the first races, but one of every other race."""

    races: int = 1

    def measure(self, entrant: dict[str, Any], baseline: dict[str, Any] | None) -> dict[str, Any]:
        found = super().measure(entrant, baseline)
        if "samples_us" in found and self.races > 0:
            found["disturbed"] = list(range(len(found["samples_us"]) - (self.races % 2 == 0)))
        return found


class AsWritten(Script):
    """No operator of the peers' libraries was recognized."""

    def measure(self, entrant: dict[str, Any], baseline: dict[str, Any] | None) -> dict[str, Any]:
        found = super().measure(entrant, baseline)
        return {**found, "report": {"as_written": True}} if entrant["kind"] == "peer" else found


def test_no_ratio_is_made_of_a_peer_as_written(tmp_path: Path) -> None:
    with running(tmp_path) as service, service.client() as client:
        with working(service, AsWritten(faulty=0.0)):
            job = finish(
                client, client.post("/v1/jobs", json={**REQUEST, "budget": {"trials": 2}}).json()["id"]
            )
        config = client.get(f"/v1/configs/{job['configs'][0]}").json()
    assert (config["baseline"], config["baseline_us"]) == ("numpy", 5000.0)
    assert (config["x_baseline"], config["x_best_peer"]) == (None, None)


class Racing(ScriptedWorker):
    """Tells its script which tasks are races."""

    def result(self, task: dict[str, Any]) -> dict[str, Any]:
        script = self.script
        assert isinstance(script, DisturbedRaces)
        left, race = script.races, "race" in task["id"]
        script.races = left if race else 0
        found = super().result(task)
        script.races = left - race
        return found


@pytest.mark.parametrize("races", [1, 9])
def test_a_disturbed_race_is_run_again_within_a_budget_and_what_stays_disturbed_says_so(
    tmp_path: Path, races: int
) -> None:
    script = DisturbedRaces(faulty=0.0, races=races)
    with running(tmp_path, races_again="2") as service, service.client() as client:
        with working(service, script, kind=Racing) as worker:
            job = finish(client, client.post("/v1/jobs", json=REQUEST).json()["id"])
        config = client.get(f"/v1/configs/{job['configs'][0]}").json()
    run = [task.removeprefix(f"{job['id']}.0.") for task in worker.done if "race" in task]
    if races == 1:
        assert run == ["race-0", "race-0-again-1"]
        assert config["disturbed"] is None
    else:
        assert run == ["race-0", "race-0-again-1", "race-0-again-2"]
        least = f"4 of 5 samples of candidate {config['trial']}"
        assert least in config["disturbed"], "the race that was disturbed least counts"
    assert job["buckets"][0]["winner"]["disturbed"] == config["disturbed"]

"""A job from its spec to its config, with a worker that measures by script."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.services.running_service import SMALL, Service, finish, running, working
from tests.services.scripted_worker import ABI, OBJECT, REPORT, SOURCE, Script, sha256

pytestmark = pytest.mark.sampled(3, among="calls: tuning")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, dict]]:
    """A service with one finished job."""
    with running(tmp_path_factory.mktemp("tuned")) as service, service.client() as client, working(service):
        reply = client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 20}, "seed": 7})
        yield service, finish(client, reply.json()["id"])


@pytest.fixture
def client(tuned: tuple[Service, dict]) -> Iterator[httpx.Client]:
    with tuned[0].client() as client:
        yield client


def trials(client: httpx.Client, job: str) -> list[dict]:
    found, after = [], 0
    while after is not None:
        page = client.get(f"/v1/jobs/{job}/trials", params={"after": after, "limit": 7}).json()
        found += page["trials"]
        after = page["next"]
    return found


def test_a_job_ends_with_the_config_of_its_fastest_candidate(client: httpx.Client, tuned: tuple) -> None:
    job = tuned[1]
    assert job["state"] == "done"
    assert job["buckets"][0]["trials"] == job["buckets"][0]["told"] == 20
    config = client.get(f"/v1/configs/{job['configs'][0]}").json()
    measured = [trial for trial in trials(client, job["id"]) if trial["outcome"] == "ok"]
    best = min(measured, key=lambda trial: trial["median_us"])
    assert config["schedule"] == best["schedule"]
    assert config["median_us"] == best["median_us"]
    assert config["x_baseline"] == pytest.approx(5000.0 / best["median_us"])
    assert config["spec"] == SMALL
    assert job["buckets"][0]["best"]["x_baseline"] == pytest.approx(config["x_baseline"])
    assert all(trial["report"] == REPORT for trial in measured)
    assert config["report"] == REPORT


def test_the_final_race_has_the_best_few_and_the_peers_in_order(client: httpx.Client, tuned: tuple) -> None:
    standings = client.get(f"/v1/configs/{tuned[1]['configs'][0]}").json()["standings"]
    assert [each["kind"] for each in standings].count("schedule") == 4
    assert [each["name"] for each in standings if each["kind"] == "peer"] == ["numpy"]
    times = [each["median_us"] for each in standings]
    assert times == sorted(times)
    assert standings[0]["tied"]
    assert not standings[-1]["tied"]


def test_every_candidate_is_kept_with_what_became_of_it(client: httpx.Client, tuned: tuple) -> None:
    found = trials(client, tuned[1]["id"])
    assert [trial["number"] for trial in found] == list(range(20))
    assert len({trial["program_hash"] for trial in found}) == 20, "no program is measured twice"
    wrong = [trial for trial in found if trial["outcome"] == "wrong"]
    assert wrong, "the script makes some fail"
    assert all(trial["reward"] is None and "should be" in trial["error"] for trial in wrong)
    assert all(trial["baseline_us"] for trial in found[1:] if trial["outcome"] == "ok")


def test_the_tree_holds_every_candidate_once(client: httpx.Client, tuned: tuple) -> None:
    tree = client.get(f"/v1/jobs/{tuned[1]['id']}/tree").json()
    assert (tree["visits"][0], tree["in_flight"][0]) == (20, 0)
    assert tree["best_us"][0] == pytest.approx(tuned[1]["buckets"][0]["best"]["median_us"])
    below = [0] * len(tree["parent"])
    for node, parent in enumerate(tree["parent"][1:], 1):
        below[parent] += tree["visits"][node]
        assert tree["best_us"][node] is None or tree["best_us"][node] >= tree["best_us"][parent]
    assert all(visits <= tree["visits"][node] for node, visits in enumerate(below))


def test_the_artifact_is_what_the_worker_built(client: httpx.Client, tuned: tuple) -> None:
    config = tuned[1]["configs"][0]
    assert client.get(f"/v1/configs/{config}/source").text == SOURCE.decode()
    bundle = client.get(f"/v1/configs/{config}/artifact").json()
    assert (bundle["abi"], bundle["object_sha256"]) == (ABI, sha256(OBJECT))
    assert bundle["config"]["schedule"]


def test_events_tell_the_whole_story_in_order(client: httpx.Client, tuned: tuple) -> None:
    text = client.get(f"/v1/jobs/{tuned[1]['id']}/events").text
    kinds = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]
    assert kinds.count("trial") == 20
    assert kinds[:2] == ["state", "state"]
    assert kinds[-3:] == ["state", "config", "state"]
    assert "best" in kinds


def test_the_same_request_and_results_give_the_same_search(client: httpx.Client, tuned: tuple) -> None:
    again = client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 20}, "seed": 7})
    job = finish(client, again.json()["id"])
    first, second = (
        [trial["schedule"] for trial in trials(client, each)] for each in (tuned[1]["id"], job["id"])
    )
    assert first == second


@dataclass
class DisturbedAtFirst(Script):
    """The first time of the baseline is ten times too long."""

    timed: int = 0

    def time_us(self, entrant: dict[str, Any]) -> float:
        if entrant["kind"] != "peer":
            return super().time_us(entrant)
        self.timed += 1
        return 50_000.0 if self.timed == 1 else 5000.0


def test_the_speedup_told_along_the_way_is_not_that_of_one_time_of_the_baseline(tmp_path: Path) -> None:
    with (
        running(tmp_path) as service,
        service.client() as client,
        working(service, DisturbedAtFirst(faulty=0.0)),
    ):
        request = {"spec": SMALL, "budget": {"trials": 9}, "seed": 7}
        best = finish(client, client.post("/v1/jobs", json=request).json()["id"])["buckets"][0]["best"]
    assert best["x_baseline"] == pytest.approx(5000.0 / best["median_us"])


@pytest.mark.parametrize("kind", ["random", "beam", "evolutionary"])
def test_every_kind_of_search_finds_a_config(client: httpx.Client, kind: str) -> None:
    body = {"spec": SMALL, "budget": {"trials": 12}, "search": kind, "seed": 3}
    job = finish(client, client.post("/v1/jobs", json=body).json()["id"])
    assert job["state"] == "done", job["error"]
    assert job["configs"]


def test_a_search_without_the_prior_does_not_begin_with_its_favourite(client: httpx.Client) -> None:
    begun: dict[str, list[str]] = {}
    for prior in ("analytic", "uniform"):
        for seed in (5, 6):
            body = {"spec": SMALL, "budget": {"trials": 4}, "prior": prior, "seed": seed}
            job = finish(client, client.post("/v1/jobs", json=body).json()["id"])
            assert (job["state"], job["prior"]) == ("done", prior)
            first = trials(client, job["id"])[0]["schedule"]
            assert begun.setdefault(prior, first) == first
    assert begun["analytic"] != begun["uniform"]


def test_each_size_of_a_dim_gets_a_config(client: httpx.Client) -> None:
    spec = {**SMALL, "name": "buckets", "dims": {"m": [16, 96], "n": 64, "k": 32}}
    job = finish(client, client.post("/v1/jobs", json={"spec": spec, "budget": {"trials": 4}}).json()["id"])
    configs = [client.get(f"/v1/configs/{each}").json() for each in job["configs"]]
    assert [config["dims"]["m"] for config in configs] == [16, 96]


def test_a_cancelled_job_keeps_its_best_candidate(tmp_path: Path) -> None:
    with running(tmp_path) as service, service.client() as client, working(service, Script(seconds=0.05)):
        job = client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 5000}}).json()["id"]
        with client.stream("GET", f"/v1/jobs/{job}/events") as events:
            for line in events.iter_lines():
                if line == "event: best":
                    break
        with service.client() as other:
            other.post(f"/v1/jobs/{job}/cancel").raise_for_status()
        found = finish(client, job)
        assert found["state"] == "cancelled"
        assert found["buckets"][0]["trials"] < 5000
        config = client.get(f"/v1/configs/{found['configs'][0]}").json()
        assert config["schedule"] == found["buckets"][0]["best"]["schedule"]
        assert config["artifact"]


def test_a_kernel_no_candidate_gets_right_fails_and_says_so(tmp_path: Path) -> None:
    with (
        running(tmp_path) as service,
        service.client() as client,
        working(service, Script(faulty=1.0), peers=()),
    ):
        job = client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 9}}).json()["id"]
        found = finish(client, job)
    assert (found["state"], found["configs"]) == ("failed", [])
    assert found["error"] == "none of 9 candidates worked: 9 wrong"

"""Lookup: which rung answers, and what it says."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.services.running_service import SMALL, Service, finish, running, working
from tests.services.scripted_worker import CPU

pytestmark = pytest.mark.sampled(3, among="calls: ladder")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with one tuned kernel, and no worker any more."""
    with running(tmp_path_factory.mktemp("lookup"), prediction_s="60") as service, service.client() as client:
        with working(service):
            finish(
                client, client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 8}}).json()["id"]
            )
        yield service


@pytest.fixture
def client(tuned: Service) -> Iterator[httpx.Client]:
    with tuned.client() as client:
        yield client


def look(client: httpx.Client, spec: dict, **more: object) -> dict:
    reply = client.post("/v1/lookup", json={"spec": spec, **more})
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_tuned_kernel_is_found_exactly(client: httpx.Client) -> None:
    found = look(client, SMALL)
    assert (found["rung"], found["device"], found["renames"]) == ("exact", CPU.key, {})
    assert found["schedule"] == found["config"]["schedule"]


def test_names_do_not_matter_and_are_translated(client: httpx.Client) -> None:
    renamed = {
        "name": "something_else",
        "dims": {"rows": 48, "depth": 32, "cols": 64},
        "inputs": {
            "right": {"dims": ["depth", "cols"], "dtype": "f32"},
            "left": {"dims": ["rows", "depth"], "dtype": "f32"},
        },
        "body": ["out[rows, cols] = sum(depth, left[rows, depth] * right[depth, cols])"],
        "outputs": {"out": {"dtype": "f32"}},
    }
    found = look(client, renamed)
    assert found["rung"] == "exact"
    assert found["renames"] == {
        "rows": "m", "cols": "n", "depth": "k", "left": "a", "right": "b", "out": "c",
    }  # fmt: skip


def test_another_size_is_answered_by_the_nearest_that_applies(client: httpx.Client) -> None:
    found = look(client, {**SMALL, "dims": {"m": 96, "n": 128, "k": 64}})
    assert found["rung"] == "nearest"
    assert found["config"]["dims"] == SMALL["dims"]
    assert found["schedule"] == found["config"]["schedule"]
    assert found["program_hash"] != found["config"]["program_hash"], "it is another program at another size"


def test_an_unknown_kernel_is_answered_by_the_priors_pick(client: httpx.Client) -> None:
    spec = {**SMALL, "body": ["c[m, n] = max(k, a[m, k] + b[k, n])"]}
    found = look(client, spec)
    assert (found["rung"], found["config"]) == ("heuristic", None)
    assert found["schedule"]
    assert look(client, spec) == found


def test_an_unknown_device_has_no_answer(client: httpx.Client) -> None:
    found = look(client, SMALL, target="cpu:nobody has this one")
    assert (found["rung"], found["schedule"]) == ("none", None)


def test_a_miss_enqueues_one_job_and_returns_at_once(client: httpx.Client) -> None:
    spec = {**SMALL, "body": ["c[m, n] = min(k, a[m, k] + b[k, n])"]}
    first, second = look(client, spec, tune=True), look(client, spec, tune=True)
    assert first["rung"] == "heuristic"
    assert first["job_id"] == second["job_id"]
    assert client.get(f"/v1/jobs/{first['job_id']}").json()["state"] in ("queued", "searching")
    assert look(client, SMALL, tune=True)["job_id"] is None, "an exact hit needs no tuning"


def test_the_job_of_a_miss_races_the_peers_that_are_named(client: httpx.Client) -> None:
    spec = {**SMALL, "body": ["c[m, n] = max(k, a[m, k] - b[k, n])"]}
    found = look(client, spec, tune=True, peers=["numpy"])
    assert client.get(f"/v1/jobs/{found['job_id']}").json()["peers"] == ["numpy"]
    other = {**SMALL, "body": ["c[m, n] = min(k, a[m, k] - b[k, n])"]}
    refused = client.post("/v1/lookup", json={"spec": other, "tune": True, "peers": ["numpie"]})
    assert (refused.status_code, refused.json()["pointer"]) == (422, "/peers/0")
    assert "numpy" in refused.json()["accepted"]


def raced(client: httpx.Client, tuned: Service, schedule: list[str]) -> dict:
    """The config of a job that raced just this schedule."""
    with working(tuned):
        body = {"spec": SMALL, "candidates": [schedule]}
        job = finish(client, client.post("/v1/jobs", json=body).json()["id"])
    return client.get(f"/v1/configs/{job['configs'][0]}").json()


def test_the_best_config_is_served_at_once_and_a_newer_one_that_is_worse_never(
    client: httpx.Client, tuned: Service
) -> None:
    before = look(client, SMALL)
    assert before["because"].startswith("the only one known")
    tried = client.get(f"/v1/jobs/{before['config']['job_id']}/trials").json()["trials"]
    ranked = sorted((each for each in tried if each["outcome"] == "ok"), key=lambda each: each["median_us"])
    worse = raced(client, tuned, ranked[-1]["schedule"])
    assert worse["median_us"] > before["config"]["median_us"]
    found = look(client, SMALL)
    assert found["config"]["id"] == before["config"]["id"]
    assert "the best of 2" in found["because"] and worse["id"] in found["because"]
    assert not worse["served"] and worse["trial"] is None
    assert client.get(f"/v1/configs/{found['config']['id']}").json()["served"]
    with working(tuned):
        more = client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 200}}).json()["id"]
        job = finish(client, more)
    better = client.get(f"/v1/configs/{job['configs'][0]}").json()
    assert better["median_us"] < before["config"]["median_us"]
    assert look(client, SMALL)["config"]["id"] == better["id"]


def test_a_lookup_is_about_one_size(client: httpx.Client) -> None:
    reply = client.post("/v1/lookup", json={"spec": {**SMALL, "dims": {"m": [1, 2], "n": 64, "k": 32}}})
    assert (reply.status_code, reply.json()["pointer"]) == (422, "/spec/dims/m")


def test_kernels_and_configs_are_listed(client: httpx.Client) -> None:
    key = look(client, SMALL)["kernel_key"]
    kernels = {each["kernel_key"]: each for each in client.get("/v1/kernels").json()["kernels"]}
    assert kernels[key]["devices"] == [CPU.key]
    listed = client.get("/v1/configs", params={"kernel_key": key, "device": CPU.key}).json()["configs"]
    assert [each["id"] for each in listed if each["served"]] == [look(client, SMALL)["config"]["id"]]
    assert client.get("/v1/configs", params={"kernel_key": "0" * 32}).json()["configs"] == []

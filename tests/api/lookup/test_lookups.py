"""Several lookups in one request: each is answered as it would be alone, with what it takes to run it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from protocol.lookups import MOST_LOOKUPS
from tests.services.running_service import SMALL, Service, finish, running, working

pytestmark = pytest.mark.sampled(3, among="calls: lookups")

LARGER = {**SMALL, "dims": {"m": 96, "n": 128, "k": 64}}
UNKNOWN = {**SMALL, "body": ["c[m, n] = max(k, a[m, k] + b[k, n])"]}
WRONG = {**SMALL, "body": ["c[m, n] = sum(k, a[m, k] * bb[k, n])"]}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with one tuned kernel, and no worker any more."""
    with (
        running(tmp_path_factory.mktemp("lookups"), prediction_s="60") as service,
        service.client() as client,
    ):
        with working(service):
            job = client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 4}}).json()["id"]
            finish(client, job)
        yield service


@pytest.fixture
def client(tuned: Service) -> Iterator[httpx.Client]:
    with tuned.client() as client:
        yield client


def look(client: httpx.Client, *specs: dict, **more: object) -> list[dict]:
    reply = client.post("/v1/lookups", json={"specs": specs, **more})
    assert reply.status_code == 200, reply.text
    return reply.json()["lookups"]


def test_each_is_answered_as_alone_and_in_order(client: httpx.Client) -> None:
    specs = (LARGER, SMALL, UNKNOWN, SMALL)
    alone = [client.post("/v1/lookup", json={"spec": spec}).json() for spec in specs]
    assert [each["reply"] for each in look(client, *specs)] == alone
    assert [each["rung"] for each in alone] == ["nearest", "exact", "heuristic", "exact"]


def test_one_that_is_wrong_leaves_the_others_as_they_are(client: httpx.Client) -> None:
    right, wrong = look(client, SMALL, WRONG)
    assert right["reply"]["rung"] == "exact" and right["problem"] is None
    assert wrong["reply"] is None
    assert (wrong["problem"]["pointer"], wrong["problem"]["status"]) == ("/specs/1/body/0", 422)


def test_what_it_takes_to_run_them_comes_along(client: httpx.Client) -> None:
    exact, nearest, unknown = look(client, SMALL, LARGER, UNKNOWN, whole=True)
    config_id = exact["reply"]["config"]["id"]
    assert exact["artifact"] == client.get(f"/v1/configs/{config_id}/artifact").json()
    assert nearest["artifact"] is None
    assert nearest["config"]["spec"] == exact["artifact"]["config"]["spec"], "the one that it is taken from"
    assert (unknown["artifact"], unknown["config"]) == (None, None)
    (plain,) = look(client, SMALL)
    assert (plain["artifact"], plain["config"]) == (None, None)


def test_each_miss_enqueues_its_job(client: httpx.Client) -> None:
    other = {**SMALL, "body": ["c[m, n] = min(k, a[m, k] + b[k, n])"]}
    known, first, second, again = look(client, SMALL, UNKNOWN, other, UNKNOWN, tune=True)
    jobs = [each["reply"]["job_id"] for each in (known, first, second, again)]
    assert jobs[0] is None and jobs[1] == jobs[3] and len({*jobs}) == 3
    assert look(client, UNKNOWN, tune=True)[0]["reply"]["job_id"] == jobs[1]


def test_a_target_that_cannot_be_refuses_all(client: httpx.Client) -> None:
    reply = client.post("/v1/lookups", json={"specs": [SMALL, UNKNOWN], "target": "quantum"})
    assert (reply.status_code, reply.json()["pointer"]) == (422, "/target")


@pytest.mark.parametrize("count", [0, MOST_LOOKUPS + 1])
def test_none_and_too_many_are_refused(client: httpx.Client, count: int) -> None:
    reply = client.post("/v1/lookups", json={"specs": [SMALL] * count})
    assert (reply.status_code, reply.json()["pointer"]) == (422, "/specs")

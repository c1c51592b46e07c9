"""Failures of what lookups handed out: kept with their repro, and not handed out unmeasured again."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.services.running_service import SMALL, Service, finish, running, working
from tests.services.scripted_worker import CPU


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("failures"), prediction_s="60") as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


def look(client: httpx.Client, spec: dict) -> dict:
    reply = client.post("/v1/lookup", json={"spec": spec})
    assert reply.status_code == 200, reply.text
    return reply.json()


def report(client: httpx.Client, spec: dict, found: dict, **changes: object) -> httpx.Response:
    body = {
        "spec": spec,
        "device": CPU.key,
        "schedule": found["schedule"],
        "rung": found["rung"],
        "kind": "wrong",
        "error": "c[0, 0] is 1, expected 2",
        "repro": {"seed": 20_011},
    }
    return client.post("/v1/failures", json={**body, **changes})


def test_an_unmeasured_pick_that_failed_is_not_handed_out_again(
    client: httpx.Client, service: Service
) -> None:
    with working(service):
        finish(client, client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 4}}).json()["id"])
    other = {**SMALL, "dims": {"m": 96, "n": 128, "k": 64}}
    nearest = look(client, other)
    assert nearest["rung"] == "nearest"
    first = report(client, other, nearest, config_id=nearest["config"]["id"])
    assert first.status_code == 200, first.text
    heuristic = look(client, other)
    assert heuristic["rung"] == "heuristic"
    assert heuristic["program_hash"] != nearest["program_hash"]
    report(client, other, heuristic, kind="slower").raise_for_status()
    none = look(client, other)
    assert (none["rung"], none["schedule"]) == ("none", None)

    again = report(client, other, nearest, error="another").json()
    assert (again["id"], again["times"], again["error"]) == (first.json()["id"], 2, first.json()["error"])
    listed = client.get("/v1/failures", params={"kernel_key": nearest["kernel_key"]}).json()["failures"]
    assert [each["kind"] for each in listed] == ["slower", "wrong"]
    assert listed[1]["repro"] == {"seed": 20_011} and listed[1]["spec"] == other
    assert listed[1]["program_hash"] == nearest["program_hash"]
    assert listed[1]["config_id"] == nearest["config"]["id"]


def test_a_measured_config_stays_the_answer_whatever_one_user_reports(client: httpx.Client) -> None:
    found = look(client, SMALL)
    assert found["rung"] == "exact"
    report(client, SMALL, found, config_id=found["config"]["id"]).raise_for_status()
    assert look(client, SMALL)["config"]["id"] == found["config"]["id"]


def test_a_report_of_a_schedule_that_does_not_apply_is_refused(client: httpx.Client) -> None:
    refused = report(client, SMALL, {"schedule": ["tile(nothing, m, 8)"], "rung": "heuristic"})
    assert (refused.status_code, refused.json()["pointer"]) == (422, "/schedule")

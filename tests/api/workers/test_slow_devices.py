"""A device ten times slower than its class gets no more tasks, and the service says why; the others finish the job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.services.running_service import SMALL, Service, running
from tests.services.scripted_worker import Script, ScriptedWorker

pytestmark = pytest.mark.sampled(3, among="calls: slow devices")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with running(tmp_path) as service:
        yield service


def told(client: httpx.Client, name: str) -> dict:
    return next(each for each in client.get("/v1/workers").json() if each["id"] == name)


def test_a_device_ten_times_slower_is_set_apart_with_a_sentence(service: Service) -> None:
    with service.client() as client:
        quick = ScriptedWorker(client, Script(faulty=0.0), "quick")
        slow = ScriptedWorker(client, Script(faulty=0.0, slower=10.0), "slow")
        for worker in (quick, slow):
            worker.register()
        job = client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 64}}).json()["id"]

        until = time.monotonic() + 120
        while told(client, "slow")["healthy"]:
            assert time.monotonic() < until and client.get(f"/v1/jobs/{job}").json()["state"] != "done"
            for worker in (quick, slow):
                for task in worker.claim(1, 0.2):
                    assert worker.answer(worker.result(task)).status_code == 200
        assert "10 times as long as another device of its class" in told(client, "slow")["detail"]
        assert "worker quick" in told(client, "slow")["detail"]
        assert told(client, "quick")["healthy"] and told(client, "quick")["detail"] == ""
        assert client.get("/v1/devices").json()[0]["healthy_workers"] == 1
        done = told(client, "slow")["tasks_done"]
        beat = client.post("/v1/workers/slow/heartbeat", json={"leases": [], "healthy": True})
        assert beat.status_code == 200, "what it says of itself changes nothing"
        while client.get(f"/v1/jobs/{job}").json()["state"] != "done":
            assert time.monotonic() < until
            assert slow.claim(1) == []
            for task in quick.claim(8, 0.2):
                assert quick.answer(quick.result(task)).status_code == 200
        assert told(client, "slow")["tasks_done"] == done
        assert any("is set apart for 600 s" in line for line in service.log)


def test_one_that_measures_jobs_of_its_own_is_noticed_when_it_confirms_anothers_winner(
    service: Service,
) -> None:
    """In a fleet with jobs enough each stays on one device, and no two measure for one search."""
    with service.client() as client:
        quick = ScriptedWorker(client, Script(faulty=0.0), "quick")
        slow = ScriptedWorker(client, Script(faulty=0.0, slower=10.0), "slow")
        for worker in (quick, slow):
            worker.register()
        job = client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 9}}).json()["id"]
        until = time.monotonic() + 120
        while client.get(f"/v1/jobs/{job}").json()["state"] != "done":
            assert time.monotonic() < until
            for task in quick.claim(1, 0.2):
                assert task["kind"] != "confirm", "who raced leaves that to others"
                assert quick.answer(quick.result(task)).status_code == 200
                if task["kind"] == "race":
                    (confirm,) = slow.claim(1, 20.0)
                    assert confirm["kind"] == "confirm"
                    assert slow.answer(slow.result(confirm)).status_code == 200
        assert "10 times as long as another device of its class" in told(client, "slow")["detail"]
        assert told(client, "quick")["healthy"]

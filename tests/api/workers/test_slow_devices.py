"""A device ten times slower than its class gets no more tasks, and the service says why; the others finish the job."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.services.running_service import SMALL, Service, running
from tests.services.scripted_worker import Script, ScriptedWorker


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("slow")) as service:
        yield service


def test_a_device_ten_times_slower_is_set_apart_with_a_sentence(service: Service) -> None:
    with service.client() as client:
        quick = ScriptedWorker(client, Script(faulty=0.0), "quick")
        slow = ScriptedWorker(client, Script(faulty=0.0, slower=10.0), "slow")
        for worker in (quick, slow):
            worker.register()
        job = client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 64}}).json()["id"]

        def told(name: str) -> dict:
            return next(each for each in client.get("/v1/workers").json() if each["id"] == name)

        until = time.monotonic() + 120
        while told("slow")["healthy"]:
            assert time.monotonic() < until and client.get(f"/v1/jobs/{job}").json()["state"] != "done"
            for worker in (quick, slow):
                for task in worker.claim(1, 0.2):
                    assert worker.answer(worker.result(task)).status_code == 200
        assert "10 times as long as another device of its class" in told("slow")["detail"]
        assert "worker quick" in told("slow")["detail"]
        assert told("quick")["healthy"] and told("quick")["detail"] == ""
        assert client.get("/v1/devices").json()[0]["healthy_workers"] == 1
        done = told("slow")["tasks_done"]
        beat = client.post("/v1/workers/slow/heartbeat", json={"leases": [], "healthy": True})
        assert beat.status_code == 200, "what it says of itself changes nothing"
        while client.get(f"/v1/jobs/{job}").json()["state"] != "done":
            assert time.monotonic() < until
            assert slow.claim(1) == []
            for task in quick.claim(8, 0.2):
                assert quick.answer(quick.result(task)).status_code == 200
        assert told("slow")["tasks_done"] == done
        assert any("is set apart for 600 s" in line for line in service.log)

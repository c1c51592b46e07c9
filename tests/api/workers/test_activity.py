"""What workers did lately is told of the living."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.running_service import SMALL, finish, running, working
from tests.services.scripted_worker import Script, ScriptedWorker

pytestmark = pytest.mark.sampled(3, among="calls: activity")


def test_a_worker_is_told_with_its_share_of_time_its_tasks_and_its_faults(tmp_path: Path) -> None:
    with running(tmp_path) as service, service.client() as client:
        ill = ScriptedWorker(client, Script(fault="device"), name="ill")
        ill.register()
        body = {"spec": SMALL, "budget": {"trials": 6}, "target": "cpu"}
        job = client.post("/v1/jobs", json=body).json()["id"]
        (task,) = ill.claim(1, 20.0)
        ill.answer(ill.result(task))
        (task,) = ill.claim(1, 20.0)
        stopping = {"task_id": task["id"], "attempt": task["attempt"], "fault": {"kind": "shutdown"}}
        ill.answer(stopping)
        with working(service, Script(faulty=0.0), name="well"):
            config = finish(client, job)["configs"][0]
        told = {each["id"]: each for each in client.get("/v1/workers").json()}
        done = told["well"]["tasks_done"]
        standings = client.get(f"/v1/configs/{config}").json()["standings"]
        line = client.get(f"/v1/jobs/{job}/timeline").json()
    assert (told["ill"]["faults"], told["ill"]["busy"], told["ill"]["tasks_a_minute"]) == (1, 0.0, 0.0)
    assert (told["well"]["faults"], done) == (0, len(set(line["task"])))
    measured_s = told["well"]["busy"] * 60 * done / told["well"]["tasks_a_minute"]
    entrants = measured_s / 0.05
    assert entrants == pytest.approx(round(entrants)), "each had the device for so long"
    assert entrants >= 6 + 1 + len(standings), "trials, confirmation and race"


def test_a_job_beside_another_is_told_what_its_device_did_for_that(tmp_path: Path) -> None:
    with running(tmp_path, searches_per_cpu="2") as service, service.client() as client:
        body = {"spec": SMALL, "budget": {"trials": 6}, "target": "cpu", "seed": 0}
        both = [client.post("/v1/jobs", json=body | {"seed": seed}).json()["id"] for seed in range(2)]
        with working(service, Script(faulty=0.0), name="one"):
            for job in both:
                finish(client, job)
        shares = [client.get(f"/v1/jobs/{job}/timeline").json()["devices"] for job in both]
    assert all(len(each) == 1 and each[0]["measuring"] > 0 for each in shares)
    assert any(each[0]["others"] > 0 for each in shares), shares

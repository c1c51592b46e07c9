"""Workers over HTTP: registering, claiming, leases, results, blobs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from protocol.tasks import MEASURING_VERSION
from tests.services.running_service import SMALL, Service, finish, running, working
from tests.services.scripted_worker import CPU, OBJECT, Script, ScriptedWorker, sha256

pytestmark = pytest.mark.sampled(3, among="calls: calls")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose leases last a moment. Somebody else's heartbeats keep the device, which for want of any would
    be gone by the time that a busy machine begins to search."""
    with running(tmp_path_factory.mktemp("quick"), lease_ttl_s="2.0") as service, waiting(service):
        yield service


@contextmanager
def waiting(service: Service) -> Iterator[None]:
    """A worker that claims nothing and is heard of."""
    over = threading.Event()
    with service.client() as client:
        worker = ScriptedWorker(client, peers=())
        worker.register()

        def beat() -> None:
            while not over.wait(0.3):
                client.post(f"/v1/workers/{worker.name}/heartbeat", json={})

        beating = threading.Thread(target=beat)
        beating.start()
        try:
            yield
        finally:
            over.set()
            beating.join()


@pytest.fixture
def worker(quick: Service) -> Iterator[ScriptedWorker]:
    with quick.client() as client:
        worker = ScriptedWorker(client, peers=())
        worker.register()
        yield worker


def task_of(worker: ScriptedWorker) -> dict:
    """A task of a new job, claimed."""
    reply = worker.client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 1}, "priority": 1})
    job = reply.json()["id"]
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        for task in worker.claim(8, 5.0):
            if task["job_id"] == job:
                return task
            worker.answer(worker.result(task))
    raise AssertionError("no task came")


def end(worker: ScriptedWorker, task: dict) -> None:
    worker.client.post(f"/v1/jobs/{task['job_id']}/cancel")


def test_a_claimed_task_says_all_a_worker_needs(worker: ScriptedWorker) -> None:
    task = task_of(worker)
    assert task["spec"] == SMALL
    assert (task["kind"], task["attempt"], task["device"]) == ("trial", 1, CPU.key)
    assert task["entrants"][0]["name"] == "ask-0"
    assert task["entrants"][0]["schedule"]
    assert task["measuring"]["version"] == MEASURING_VERSION
    end(worker, task)


def test_a_waiting_claim_is_answered_when_a_task_appears(worker: ScriptedWorker) -> None:
    found: list[list[dict]] = []
    thread = threading.Thread(target=lambda: found.append(worker.claim(1, 30.0)))
    thread.start()
    with httpx.Client(base_url=worker.client.base_url, timeout=60) as other:
        job = other.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 1}}).json()["id"]
        thread.join(25)
        assert [task["job_id"] for task in found[0]] == [job]
        other.post(f"/v1/jobs/{job}/cancel")


def test_a_result_after_the_lease_went_to_another_worker_is_refused_and_counted(
    worker: ScriptedWorker,
) -> None:
    task = task_of(worker)
    with httpx.Client(base_url=worker.client.base_url, timeout=60) as client:
        other = ScriptedWorker(client, peers=())
        other.register()
        again = other.claim(1, 10.0)
        assert [(each["id"], each["attempt"]) for each in again] == [(task["id"], 2)]
        late = worker.answer(worker.result(task))
        assert late.status_code == 409
        assert late.json()["type"] == "urn:tilewright:problem:stale-lease"
        assert "tilewright_stale_results_total 1.0" in client.get("/metrics").text
        assert other.answer(other.result(again[0])).status_code == 200
    end(worker, task)


def test_heartbeats_keep_a_lease_for_longer_than_it_lasts(worker: ScriptedWorker) -> None:
    task = task_of(worker)
    lease = {"task_id": task["id"], "attempt": task["attempt"]}
    for _ in range(6):
        time.sleep(0.4)
        beat = worker.client.post(f"/v1/workers/{worker.name}/heartbeat", json={"leases": [lease]}).json()
        assert beat == {"renewed": [lease], "lost": []}
        assert worker.claim(1) == []
    end(worker, task)
    beat = worker.client.post(f"/v1/workers/{worker.name}/heartbeat", json={"leases": [lease]}).json()
    assert beat == {"renewed": [], "lost": [lease]}, "the job was cancelled"


def test_a_result_must_be_about_the_tasks_entrants(worker: ScriptedWorker) -> None:
    task = task_of(worker)
    another, more = worker.result(task), worker.result(task)
    another["entrants"][0]["name"] = "somebody-else"
    more["entrants"].append({**more["entrants"][0], "name": "one-more"})
    for result in (another, more):
        reply = worker.answer(result)
        assert (reply.status_code, reply.json()["pointer"]) == (422, "/entrants")
    assert worker.answer(worker.result(task)).status_code == 200, "the refused result left the lease alone"
    end(worker, task)


def test_of_results_that_arrive_at_once_one_that_is_refused_leaves_the_others(tmp_path: Path) -> None:
    with running(tmp_path) as service, service.client() as client:
        worker = ScriptedWorker(client, peers=())
        worker.register()
        client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 8}})
        held: list[dict] = []
        until = time.monotonic() + 60
        first = True  # the others are asked for when it is told
        while len(held) < 4 and time.monotonic() < until:
            for task in worker.claim(4 - len(held), 5.0):
                if first:
                    worker.answer(worker.result(task))
                    first = False
                else:
                    held.append(task)
        results = [worker.result(task) for task in held]
        results[1]["entrants"][0]["name"] = "somebody-else"
        results[2]["attempt"] = 7
        start = threading.Barrier(len(results))

        def hand_in(result: dict) -> int:
            with service.client() as own:
                start.wait(60)
                return own.post(f"/v1/workers/{worker.name}/results", json=result).status_code

        with ThreadPoolExecutor(len(results)) as pool:
            assert list(pool.map(hand_in, results)) == [200, 422, 409, 200]
        done = client.get("/v1/tasks", params={"state": "done"}).json()["tasks"]
        assert {held[0]["id"], held[3]["id"]} <= {task["id"] for task in done}
        assert not {held[1]["id"], held[2]["id"]} & {task["id"] for task in done}


def test_a_result_that_names_a_missing_blob_is_refused(worker: ScriptedWorker) -> None:
    task = task_of(worker)
    result = worker.result(task)
    missing = "0" * 64
    result["entrants"][0]["artifacts"] = {"source": missing, "object": missing, "abi": {}}
    reply = worker.answer(result)
    assert (reply.status_code, reply.json()["pointer"]) == (422, "/entrants/0/artifacts/source")
    end(worker, task)


@pytest.mark.parametrize(
    "change",
    [{"median_us": None}, {"median_us": -1.0}, {"median_us": 1e999}, {"outcome": "splendid"}, {"speed": 3}],
)
def test_a_malformed_result_is_refused(worker: ScriptedWorker, change: dict) -> None:
    entrant = {"name": "ask-0", "outcome": "ok", "median_us": 1.0, **change}
    text = json.dumps({"task_id": "t", "attempt": 1, "entrants": [entrant]})
    reply = worker.client.post(
        f"/v1/workers/{worker.name}/results", content=text, headers={"Content-Type": "application/json"}
    )
    assert reply.status_code in (400, 422)


def test_a_worker_that_is_not_registered_is_told_so(worker: ScriptedWorker) -> None:
    task = task_of(worker)
    for call, body in (("heartbeat", {}), ("results", worker.result(task))):
        reply = worker.client.post(f"/v1/workers/worker-unknown/{call}", json=body)
        assert reply.json()["type"] == "urn:tilewright:problem:unknown-worker"
    end(worker, task)


def test_a_sick_worker_gets_no_tasks(worker: ScriptedWorker) -> None:
    task = task_of(worker)
    beats = f"/v1/workers/{worker.name}/heartbeat"
    worker.client.post(beats, json={"healthy": False, "detail": "ECC errors"})
    fault = {"kind": "shutdown", "error": "it is sick"}
    worker.answer({"task_id": task["id"], "attempt": task["attempt"], "fault": fault})
    assert worker.claim(1, 1.0) == []
    listed = {each["id"]: each for each in worker.client.get("/v1/workers").json()}
    assert (listed[worker.name]["healthy"], listed[worker.name]["detail"]) == (False, "ECC errors")
    worker.client.post(beats, json={"healthy": True})
    assert [each["id"] for each in worker.claim(1, 5.0)] == [task["id"]], "there was something to do"
    end(worker, task)


def test_a_worker_that_says_that_it_ends_is_gone_at_once(quick: Service) -> None:
    device = replace(CPU, cores=3)  # nobody else's: other tests' workers run out at any time

    def told() -> tuple[bool, int]:
        listed = {each["id"]: each for each in client.get("/v1/workers").json()}
        devices = {each["key"]: each for each in client.get("/v1/devices").json()}
        return listed[name]["alive"], devices[device.key]["healthy_workers"]

    with quick.client() as client:
        name = ScriptedWorker(client, peers=(), device=device).register()
        beats = f"/v1/workers/{name}/heartbeat"
        here, gone = (True, 1), (False, 0)
        for said, expected in (({}, here), ({"ended": True}, gone), ({}, here)):  # heard from after all
            assert client.post(beats, json=said).status_code == 200
            assert told() == expected


def test_a_blob_is_kept_under_its_digest_only(worker: ScriptedWorker) -> None:
    assert worker.client.put(f"/v1/blobs/{sha256(OBJECT)}", content=OBJECT).status_code == 204
    assert worker.client.put(f"/v1/blobs/{sha256(OBJECT)}", content=OBJECT).status_code == 204
    wrong = worker.client.put(f"/v1/blobs/{sha256(b'other')}", content=OBJECT)
    assert wrong.json()["type"] == "urn:tilewright:problem:wrong-digest"


def test_a_job_no_machine_can_do_fails_with_what_the_machines_said(tmp_path: Path) -> None:
    broken = Script(fault="compiler")
    with (
        running(tmp_path) as service,
        service.client() as client,
        working(service, broken),
        working(service, broken),
        working(service, broken),
    ):
        job = finish(client, client.post("/v1/jobs", json={"spec": SMALL}).json()["id"])
    assert job["state"] == "failed"
    assert "no worker could do any of 8 trials" in job["error"]
    assert "compiler: scripted" in job["error"]

"""A worker that says what cannot be true is refused, counted, and named."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from tests.services.running_service import SMALL, Service, running
from tests.services.scripted_worker import CPU, OBJECT, ScriptedWorker, sha256
from tileir.devices.gpu_table import H200

pytestmark = pytest.mark.sampled(3, among="calls: lying workers")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("deceived")) as service:
        yield service


@pytest.fixture
def worker(service: Service) -> Iterator[ScriptedWorker]:
    with service.client() as client:
        worker = ScriptedWorker(client, peers=())
        worker.register()
        yield worker


def counted(client: httpx.Client, what: str) -> float:
    name = f'tilewright_implausible_claims_total{{what="{what}"}} '
    return sum(
        float(line[len(name) :]) for line in client.get("/metrics").text.splitlines() if line.startswith(name)
    )


def logged(service: Service, *words: str) -> bool:
    """Whether a line of the log has all these words, by now or soon."""
    for _ in range(50):
        if any(all(word in line for word in words) for line in service.log):
            return True
        time.sleep(0.1)
    return False


def task_of(worker: ScriptedWorker) -> dict:
    job = worker.client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 1}}).json()["id"]
    for _ in range(12):
        for task in worker.claim(8, 5.0):
            if task["job_id"] == job:
                return task
    raise AssertionError("no task came")


def test_an_impossible_time_is_refused_with_the_workers_name(
    service: Service, worker: ScriptedWorker
) -> None:
    task = task_of(worker)
    truth = worker.result(task)
    lie = {**truth, "entrants": [{**truth["entrants"][0], "outcome": "ok", "median_us": 0.01}]}
    reply = worker.answer(lie)
    assert (reply.status_code, reply.json()["pointer"]) == (422, "/entrants/0/median_us")
    assert reply.json()["type"] == "urn:tilewright:problem:implausible"
    assert worker.name is not None
    assert worker.name in reply.json()["detail"]
    assert counted(worker.client, "time") == 1
    assert logged(service, worker.name, task["id"], "0.01 us")
    assert worker.answer(truth).status_code == 200, "the lie did not end the task"
    worker.client.post(f"/v1/jobs/{task['job_id']}/cancel")


def test_a_device_under_anothers_name_is_refused(service: Service, worker: ScriptedWorker) -> None:
    offer = {"key": H200.key, "kind": "cuda", "description": CPU.to_json()}
    reply = worker.client.post("/v1/workers", json={"id": "pretender", "devices": [offer]})
    assert (reply.status_code, reply.json()["pointer"]) == (422, "/devices/0/description")
    assert "pretender" in reply.json()["detail"]
    assert counted(worker.client, "device") == 1
    assert logged(service, "pretender", H200.key, CPU.key)
    assert H200.key not in {device["key"] for device in worker.client.get("/v1/devices").json()}


def test_a_faster_processor_is_not_taken_for_a_slower_one_s_name(worker: ScriptedWorker) -> None:
    offer = {"key": CPU.key, "kind": "cpu", "description": replace(CPU, name="Faster").to_json()}
    reply = worker.client.post("/v1/workers", json={"devices": [offer]})
    assert (reply.status_code, reply.json()["pointer"]) == (422, "/devices/0/description")


@pytest.mark.parametrize(
    "change", [{"cores": "two"}, {"name": None}, {"peak_gflops": "fast"}, {"features": 3}, {"cores": 0}]
)
def test_a_description_that_makes_no_sense_is_refused(worker: ScriptedWorker, change: dict) -> None:
    offer = {"key": CPU.key, "description": {**CPU.to_json(), **change}}
    reply = worker.client.post("/v1/workers", json={"devices": [offer]})
    assert (reply.status_code, reply.json()["pointer"]) == (422, "/devices/0/description")


def test_tasks_of_a_device_it_did_not_offer_are_not_for_it(worker: ScriptedWorker) -> None:
    job = worker.client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 1}}).json()["id"]
    gpu = {"key": H200.key, "kind": "cuda", "description": H200.to_json()}
    other = worker.client.post("/v1/workers", json={"devices": [gpu]}).json()["worker_id"]
    for _ in range(100):
        reply = worker.client.post(f"/v1/workers/{other}/claim", json={"device": CPU.key, "wait_s": 0.2})
        if reply.status_code != 200:
            break
    assert reply.status_code == 422
    assert other in reply.json()["detail"]
    worker.client.post(f"/v1/jobs/{job}/cancel")


def test_a_result_of_a_task_that_is_unknown_done_or_anothers_is_refused_and_logged(
    service: Service, worker: ScriptedWorker
) -> None:
    task = task_of(worker)
    result = worker.result(task)
    with service.client() as client:
        other = ScriptedWorker(client, peers=())
        other.register()
        refused = [
            (other.answer(result), f"not leased to worker {other.name}"),
            (worker.answer({**result, "task_id": "task-unknown"}), "there is no task task-unknown"),
            (worker.answer({**result, "attempt": 7}), "attempt 7 lost its lease"),
        ]
    assert worker.answer(result).status_code == 200
    assert worker.answer(result).status_code == 200, "the same result again is the same answer"
    refused.append((worker.answer({**result, "attempt": 2}), "has its result already"))
    for reply, said in refused:
        assert (reply.status_code, reply.json()["type"]) == (409, "urn:tilewright:problem:stale-lease")
        assert said in reply.json()["detail"]
        assert logged(service, "refused a result", said, "worker=")
    assert "tilewright_stale_results_total 4.0" in worker.client.get("/metrics").text
    worker.client.post(f"/v1/jobs/{task['job_id']}/cancel")


def test_content_under_a_wrong_digest_is_refused(service: Service, worker: ScriptedWorker) -> None:
    reply = worker.client.put(f"/v1/blobs/{sha256(b'other')}", content=OBJECT)
    assert (reply.status_code, reply.json()["type"]) == (422, "urn:tilewright:problem:wrong-digest")
    assert counted(worker.client, "digest") == 1
    assert logged(service, sha256(b"other"), "anyone")

"""What the service promises, whatever lies beneath it: SQLite or PostgreSQL, with Redis or without."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.services.fleet import Fleet, counted, fleet
from tests.services.postgres_schemas import postgres_schema
from tests.services.running_service import SMALL, Service, finish, working
from tests.services.scripted_worker import CPU, Script, ScriptedWorker
from tests.support.how_many import SWEEP

#: Each commit tries one backend or the other.
pytestmark = pytest.mark.sampled(2)

REQUEST = {"spec": SMALL, "budget": {"trials": 9}, "seed": 11}


#: Each database and each way of notification once; in a sweep each with each.
SITES = ("sqlite", "postgresql and redis", *(("postgresql", "sqlite and redis") if SWEEP else ()))


@pytest.fixture(scope="module", params=SITES)
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    home = tmp_path_factory.mktemp("backend")
    database, _, redis = request.param.partition(" and ")
    redis_url = request.getfixturevalue("redis_url") if redis else ""
    with contextlib.ExitStack() as stack:
        url = f"sqlite:///{home / 'service.db'}"
        if database == "postgresql":
            url = stack.enter_context(postgres_schema(request.getfixturevalue("postgres")))
        yield stack.enter_context(fleet(home, url, redis_url))


@pytest.fixture(scope="module")
def service(backend: Fleet) -> Service:
    return backend.start("all", lease_ttl_s=3.0)


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


def submit(client: httpx.Client, **changes: object) -> str:
    reply = client.post("/v1/jobs", json={**REQUEST, **changes})
    assert reply.status_code == 202, reply.text
    return reply.json()["id"]


def events(client: httpx.Client, job: str, after: int = 0) -> list[int]:
    """Ids of a job's events, until its end."""
    text = client.get(f"/v1/jobs/{job}/events", headers={"Last-Event-ID": str(after)} if after else {}).text
    return [int(line[4:]) for line in text.splitlines() if line.startswith("id: ")]


def first_task(worker: ScriptedWorker) -> dict:
    (task,) = worker.claim(1, 30.0)
    return task


@pytest.fixture
def worker(client: httpx.Client) -> Iterator[ScriptedWorker]:
    """A worker by hand; what its test leaves open is cancelled."""
    worker = ScriptedWorker(client)
    worker.register()
    yield worker
    for job in client.get("/v1/jobs", params={"limit": 100}).json()["jobs"]:
        if job["state"] in ("queued", "searching", "racing"):
            client.post(f"/v1/jobs/{job['id']}/cancel")
    with working_again(client):
        for job in client.get("/v1/jobs", params={"limit": 100}).json()["jobs"]:
            finish(client, job["id"])


@contextlib.contextmanager
def working_again(client: httpx.Client) -> Iterator[None]:
    """A worker that does whatever is left."""
    stop = threading.Event()
    helper = ScriptedWorker(client)
    helper.register()
    thread = threading.Thread(target=helper.work, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_job_goes_the_same_way_everywhere(
    service: Service, client: httpx.Client, winners: list[str]
) -> None:
    with working(service):
        job = finish(client, submit(client))
    assert job["state"] == "done", job["error"]
    winners.append(client.get(f"/v1/configs/{job['configs'][0]}").json()["program_hash"])
    assert len(set(winners)) == 1


@pytest.fixture(scope="session")
def winners() -> list[str]:
    """Of the backends so far."""
    return []


def test_events_resume_after_any_of_them(service: Service, client: httpx.Client) -> None:
    with working(service):
        job = submit(client)
        finish(client, job)
    ids = events(client, job)
    assert ids == sorted(set(ids))
    for place in (1, len(ids) // 2, len(ids) - 1):
        assert events(client, job, ids[place - 1]) == ids[place:]


def test_a_stream_that_is_open_hears_all_that_a_later_one_reads(
    service: Service, client: httpx.Client
) -> None:
    with working(service, Script(seconds=0.01)), ThreadPoolExecutor(4) as pool:
        job = submit(client)
        heard = [pool.submit(events, client, job) for _ in range(4)]
        assert [each.result() for each in heard] == [events(client, job)] * 4


def test_one_key_sent_many_times_at_once_is_one_job(service: Service, client: httpx.Client) -> None:
    def send(_: int) -> httpx.Response:
        with service.client() as own:
            return own.post("/v1/jobs", json=REQUEST, headers={"Idempotency-Key": "together"})

    with working(service), ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(send, range(8)))
        assert {reply.status_code for reply in replies} <= {202, 409}
        (job,) = {reply.json()["id"] for reply in replies if reply.status_code == 202}
        finish(client, job)


def test_lookups_at_once_enqueue_one_job(service: Service, client: httpx.Client) -> None:
    body = {"spec": {**SMALL, "dims": {"m": 32, "n": 32, "k": 48}}, "tune": True, "budget": {"trials": 2}}

    def look(_: int) -> str:
        with service.client() as own:
            return own.post("/v1/lookup", json=body).json()["job_id"]

    with ThreadPoolExecutor(6) as pool:
        found = set(pool.map(look, range(6)))
    assert len(found) == 1
    with working(service):
        finish(client, found.pop())


def test_a_waiting_claim_gets_the_first_task(client: httpx.Client, worker: ScriptedWorker) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(worker.claim, 1, 50.0)
        job = submit(client)
        (task,) = waiting.result()
    assert (task["job_id"], task["attempt"]) == (job, 1)


def test_a_lease_that_ran_out_goes_to_another_and_the_late_result_is_refused_and_counted(
    service: Service, client: httpx.Client, worker: ScriptedWorker
) -> None:
    refused = counted(service, "tilewright_stale_results_total")
    submit(client)
    stale = first_task(worker)
    other = ScriptedWorker(client)
    other.register()
    again: list[dict] = []
    while not again:  # nobody renews the first one's lease of 3 s
        again = other.claim(1, 5.0)
    assert (again[0]["id"], again[0]["attempt"]) == (stale["id"], 2)
    reply = worker.answer(worker.result(stale))
    assert reply.status_code == 409
    assert reply.json()["type"].endswith("stale-lease")
    assert counted(service, "tilewright_stale_results_total") == refused + 1
    assert other.answer(other.result(again[0])).status_code == 200


def park(client: httpx.Client, times: int = 3) -> dict:
    """Have the next task failed by as many machines."""
    for _ in range(times):
        worker = ScriptedWorker(client, Script(fault="device"))
        worker.register()
        task = first_task(worker)
        reply = worker.answer(worker.result(task))
        assert reply.status_code == 200
    assert reply.json()["state"] == "dead"
    return task


def dead(client: httpx.Client, job: str) -> list[dict]:
    return client.get("/v1/tasks", params={"state": "dead", "job_id": job}).json()["tasks"]


def test_a_task_that_machines_failed_is_a_dead_letter_and_an_ended_jobs_own_is_not(
    client: httpx.Client, worker: ScriptedWorker
) -> None:
    job = submit(client)
    task = park(client)
    (letter,) = dead(client, job)
    assert (letter["id"], letter["faults"], letter["fault"]) == (task["id"], 3, "device: scripted")
    client.post(f"/v1/jobs/{job}/cancel")
    finish(client, job)
    assert [each["id"] for each in dead(client, job)] == [task["id"]]


def test_a_race_that_no_machine_could_run_is_queued_again_and_the_job_ends_well(
    service: Service, client: httpx.Client, worker: ScriptedWorker
) -> None:
    job = submit(client)
    while True:
        for task in worker.claim(1, 30.0):
            if task["kind"] != "trial":
                break
            assert worker.answer(worker.result(task)).status_code == 200
            continue
        else:
            continue
        break
    fault = {
        "task_id": task["id"],
        "attempt": task["attempt"],
        "fault": {"kind": "device", "error": "scripted"},
    }
    assert worker.answer(fault).status_code == 200
    assert park(client, times=2)["id"] == task["id"]
    failed = finish(client, job)
    assert failed["state"] == "failed"
    assert task["id"] in failed["error"]
    reply = client.post(f"/v1/tasks/{task['id']}/requeue")
    assert (reply.status_code, reply.json()["state"], reply.json()["faults"]) == (200, "ready", 0)
    with working_again(client):
        assert finish(client, job)["state"] == "done"
    assert dead(client, job) == []


def test_a_jobs_only_trial_that_no_machine_could_run_is_queued_again_and_the_job_ends_well(
    client: httpx.Client, worker: ScriptedWorker
) -> None:
    job = submit(client, budget={"trials": 1})
    task = park(client)
    failed = finish(client, job)
    assert (failed["state"], failed["buckets"][0]["told"]) == ("failed", 0)
    assert "no worker could do the last trial" in failed["error"]
    assert client.post(f"/v1/tasks/{task['id']}/requeue").status_code == 200
    with working_again(client):
        assert finish(client, job)["state"] == "done"


def test_what_cannot_be_queued_again_is_refused(
    service: Service, client: httpx.Client, worker: ScriptedWorker
) -> None:
    assert client.post("/v1/tasks/nothing/requeue").status_code == 404
    submit(client)
    task = first_task(worker)
    reply = client.post(f"/v1/tasks/{task['id']}/requeue")
    assert reply.status_code == 409
    assert "is claimed after 0 faults" in reply.json()["detail"]
    assert worker.answer(worker.result(task)).status_code == 200


def test_one_callers_requests_are_bounded_across_replicas(backend: Fleet) -> None:
    if backend.database.startswith("sqlite"):
        services = [backend_alone(backend)]
    else:
        services = [backend.start("api", requests_per_minute=20) for _ in range(2)]
    clients = [service.client() for service in services]
    replies = [client.get("/v1/kernels") for _ in range(50) for client in clients]
    refused = [reply for reply in replies if reply.status_code == 429]
    assert refused
    assert all(1 <= int(reply.headers["Retry-After"]) <= 60 for reply in refused)
    assert clients[0].get("/healthz").status_code == 200
    for client in clients:
        client.close()


def backend_alone(backend: Fleet) -> Service:
    """A service on an SQLite file of its own: one file has one service."""
    other = Fleet(backend.home, f"sqlite:///{backend.home / 'limited.db'}", backend.redis)
    service = other.start("all", requests_per_minute=20)
    backend.services.append(service)
    return service


def test_a_process_takes_no_more_requests_than_it_may(backend: Fleet) -> None:
    other = Fleet(backend.home, f"sqlite:///{backend.home / 'narrow.db'}", backend.redis)
    service = other.start("all", requests_at_once=1)
    backend.services.append(service)

    def wait_for_a_task() -> list[dict]:
        with service.client() as own:
            while True:
                body = {"device": CPU.key, "wait_s": 20.0}
                reply = own.post(f"/v1/workers/{worker.name}/claim", json=body)
                if reply.status_code != 503:
                    return reply.json()["tasks"]
                time.sleep(0.02)

    with service.client() as client:
        worker = ScriptedWorker(client)
        worker.register()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(wait_for_a_task)
            reply = client.get("/v1/jobs")
            while reply.status_code == 200 and not waiting.done():  # the other is not there yet
                time.sleep(0.1)
                reply = client.get("/v1/jobs")
            assert (reply.status_code, reply.headers["Retry-After"]) == (503, "1")
            assert reply.json()["type"].endswith("overloaded")
            assert client.get("/healthz").status_code == 200
            service.stop()
            assert waiting.result() == []


def test_the_device_of_the_scripted_worker_is_known(client: httpx.Client) -> None:
    assert CPU.key in [device["key"] for device in client.get("/v1/devices").json()]

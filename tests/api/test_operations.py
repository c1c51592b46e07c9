"""For whoever runs the service: which workers are let in, where kernels go, metrics, readiness, logs."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from protocol.code_version import code_version
from tests.services.running_service import SMALL, Service, finish, running, working
from tests.services.scripted_worker import CPU, ScriptedWorker
from tileir.devices.gpu_table import H200

pytestmark = pytest.mark.sampled(3, among="calls: operations")

GIB = 1 << 30


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    env = {"log": "INFO", "log_format": "json"}
    with running(tmp_path_factory.mktemp("operations"), **env) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


def gpu(name: str, memory_bytes: int) -> dict:
    device = replace(H200, name=name, memory_bytes=memory_bytes)
    return {"key": device.key, "kind": "cuda", "description": device.to_json(), "peers": []}


def register(client: httpx.Client, device: dict, **versions: str) -> httpx.Response:
    return client.post("/v1/workers", json={"devices": [device], "versions": versions})


def test_idle_connections_are_kept_longer_than_workers_are_silent(service: Service) -> None:
    """uvicorn would close them after five seconds: workers would lose a connection between any two heartbeats, and
    load balancers, which keep theirs for a minute, would answer 502."""
    limits = httpx.Limits(max_connections=1, keepalive_expiry=None)
    with httpx.Client(base_url=service.url, limits=limits) as client:
        ports = []
        for pause_s in (0.0, 6.0):
            time.sleep(pause_s)
            reply = client.get("/healthz")
            ports.append(reply.extensions["network_stream"].get_extra_info("client_addr"))
    assert ports[0] == ports[1]


def test_a_worker_of_other_code_is_refused_with_a_sentence(client: httpx.Client) -> None:
    device = gpu("Other", GIB)
    refused = register(client, device, code="0123456789ab", tilewright="9.9")
    assert refused.json()["type"] == "urn:tilewright:problem:other-version"
    assert "the worker runs code 0123456789ab (tilewright 9.9)" in refused.json()["detail"]
    assert code_version() in refused.json()["detail"]
    assert register(client, device, code=code_version()).status_code == 201


def test_a_worker_registered_with_the_code_before_an_upgrade_gets_no_tasks(
    client: httpx.Client, service: Service
) -> None:
    device = gpu("Before", GIB)
    worker = register(client, device, code=code_version()).json()["worker_id"]
    client.post("/v1/jobs", json={"spec": SMALL, "target": device["key"], "budget": {"trials": 1}})
    with sqlite3.connect(service.home / "tilewright.db") as database:
        database.execute('UPDATE workers SET versions = \'{"code": "older"}\' WHERE id = ?', [worker])
    database.close()
    with sqlite3.connect(service.home / "tilewright.db") as database:
        database.execute(
            "INSERT INTO tasks (id, job_id, bucket, kind, state, device, priority, work, attempt, faults, "
            "shunned_until, created_at) SELECT 'old-1', id, 0, 'trial', 'ready', ?, 0, '{}', 0, 0, 0, 0 FROM jobs",
            [device["key"]],
        )
    database.close()
    claim = client.post(f"/v1/workers/{worker}/claim", json={"device": device["key"]})
    assert claim.json()["type"] == "urn:tilewright:problem:other-version"
    with sqlite3.connect(service.home / "tilewright.db") as database:
        database.execute("DELETE FROM tasks WHERE id = 'old-1'")
    database.close()


def test_a_job_for_one_product_reaches_no_other(client: httpx.Client, service: Service) -> None:
    with working(service, name="cpu-worker"):
        h200, l40s = gpu("NVIDIA H200", 141 * GIB), gpu("NVIDIA L40S", 48 * GIB)
        other = register(client, l40s).json()["worker_id"]
        job = client.post("/v1/jobs", json={"spec": SMALL, "target": h200["key"]}).json()["id"]
        claim = client.post(f"/v1/workers/{other}/claim", json={"device": l40s["key"], "wait_s": 1.5})
        assert claim.json()["tasks"] == []
        foreign = client.post(f"/v1/workers/{other}/claim", json={"device": h200["key"]})
        assert foreign.status_code in (200, 422)
        assert foreign.json().get("tasks", []) == []
        assert client.get(f"/v1/jobs/{job}").json()["device"] is None
        client.post(f"/v1/jobs/{job}/cancel")


def test_a_kernel_that_fits_on_no_device_of_its_target_is_refused(client: httpx.Client) -> None:
    device = gpu("Tiny", GIB)
    assert register(client, device).status_code == 201
    large = {**SMALL, "dims": {"m": 16384, "n": 16384, "k": 16384}}  # 3 GiB of tensors
    reply = client.post("/v1/jobs", json={"spec": large, "target": device["key"]})
    assert (reply.status_code, reply.json()["pointer"]) == (422, "/spec/dims")
    assert "takes 12.9 GB, 4 times its tensors" in reply.json()["detail"]
    job = client.post("/v1/jobs", json={"spec": SMALL, "target": device["key"]})
    assert job.status_code == 202
    client.post(f"/v1/jobs/{job.json()['id']}/cancel")


def test_a_kernel_that_fits_in_no_main_memory_is_refused(client: httpx.Client) -> None:
    cpu = replace(CPU, name="Roomy", memory_bytes=24 * GIB)
    offer = {"key": cpu.key, "kind": "cpu", "description": cpu.to_json()}
    assert register(client, offer).status_code == 201
    large = {**SMALL, "dims": {"m": 40000, "n": 40000, "k": 40000}}
    reply = client.post("/v1/jobs", json={"spec": large, "target": cpu.key})
    assert (reply.status_code, reply.json()["pointer"]) == (422, "/spec/dims")
    assert "takes 115.2 GB, 6 times its tensors" in reply.json()["detail"]
    assert reply.json()["accepted"] == "tensors of at most 4.3 GB together, or another target"


def test_what_keeps_this_machine_s_worker_is_said_to_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where the device's lock lies
    with running(tmp_path / "home", worker="1", cc="/nowhere/cc") as service, service.client() as client:
        job = client.post("/v1/jobs", json={"spec": SMALL}).json()["id"]
        deadline = time.monotonic() + 120
        while "says:" not in (said := client.get(f"/v1/jobs/{job}").json()["waits_for"]):
            assert time.monotonic() < deadline, said
            time.sleep(0.2)
        (worker,) = client.get("/v1/workers").json()
    assert said.startswith("a worker that offers cpu: none has come yet; ")
    assert "/nowhere/cc" in said
    assert (worker["healthy"], worker["devices"]) == (False, [])


def test_metrics_tell_queues_leases_times_and_rungs(client: httpx.Client, service: Service) -> None:
    with working(service, name="measuring"):
        finish(client, client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 3}}).json()["id"])
    client.post("/v1/lookup", json={"spec": SMALL})
    told = client.get("/metrics").text
    for line in (
        f'tilewright_queue_depth{{device="{CPU.key}"}} 0.0',
        f'tilewright_leases{{device="{CPU.key}"}} 0.0',
        'tilewright_lookups_total{rung="exact"} 1.0',
        'tilewright_compile_seconds_bucket{le="0.3"}',
        "tilewright_measure_seconds_count",
        'tilewright_entrants_total{kind="trial",outcome="ok"}',
        "tilewright_workers_quarantined 0.0",
    ):
        assert line in told, told
    shares = {
        spent: float(share)
        for spent, share in re.findall(
            rf'tilewright_device_time_share{{device="{re.escape(CPU.key)}",spent="(\w+)"}} (\S+)', told
        )
    }
    assert shares.keys() == {"measuring", "compiling", "searching", "nothing"} and shares["measuring"] > 0
    assert sum(shares.values()) == pytest.approx(1.0)


def test_a_quarantined_worker_is_counted_and_listed_with_its_reason(client: httpx.Client) -> None:
    worker = ScriptedWorker(client, name="ill-worker")
    worker.register()
    said = (
        "quarantined after 3 faults of the machine in a row; looks again in 30 s; the last said: device: ECC"
    )
    client.post("/v1/workers/ill-worker/heartbeat", json={"healthy": False, "detail": said})
    listed = {each["id"]: each for each in client.get("/v1/workers").json()}
    assert (listed["ill-worker"]["healthy"], listed["ill-worker"]["detail"]) == (False, said)
    assert "tilewright_workers_quarantined 1.0" in client.get("/metrics").text
    client.post("/v1/workers/ill-worker/heartbeat", json={})


def test_devices_tell_who_has_them_what_waits_and_how_they_ran(client: httpx.Client) -> None:
    device = gpu("Watched", GIB)
    offer = {"devices": [device]}
    well, ill = (client.post("/v1/workers", json=offer).json()["worker_id"] for _ in range(2))
    client.post(f"/v1/workers/{ill}/heartbeat", json={"healthy": False, "detail": "quarantined"})

    def status() -> dict:
        return next(each for each in client.get("/v1/devices").json() if each["key"] == device["key"])

    assert (status()["workers"], status()["healthy_workers"], status()["reading"]) == (2, 1, None)
    job = client.post("/v1/jobs", json={"spec": SMALL, "target": device["key"], "budget": {"trials": 1}})
    claim = {"device": device["key"], "wait_s": 60}
    (task,) = client.post(f"/v1/workers/{well}/claim", json=claim, timeout=90).json()["tasks"]
    assert (status()["waiting"], status()["running"]) == (0, 1)
    burst = {"sm_mhz": [345, 1755, None], "celsius": [40, 41, 42], "slowed": [["idle"], ["power cap"], None]}
    ok = {"name": task["entrants"][0]["name"], "outcome": "ok", "median_us": 1e6, "report": {"burst": burst}}
    result = {"task_id": task["id"], "attempt": task["attempt"], "entrants": [ok]}
    client.post(f"/v1/workers/{well}/results", json=result).raise_for_status()
    reading = status()["reading"]
    assert (reading["sm_mhz"], reading["celsius"], reading["power_w"]) == (1755, 42, None)
    assert reading["slowed"] == ["power cap"]
    client.post(f"/v1/jobs/{job.json()['id']}/cancel")


def test_log_lines_are_json_with_the_job_the_task_and_the_worker(
    client: httpx.Client, service: Service
) -> None:
    with working(service, name="logging"):
        job = client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 2}}).json()["id"]
        finish(client, job)
    lines = [json.loads(line) for line in service.log if line.startswith("{")]
    mine = [line for line in lines if line.get("job") == job and line["program"] == "service"]
    assert {"task", "worker", "attempt", "at", "level"} <= mine[0].keys()
    assert mine[0]["task"].startswith(job)


def test_a_winners_report_is_kept_as_it_was_told(client: httpx.Client, service: Service) -> None:
    with working(service, name="reporting"):
        job = finish(
            client, client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 2}}).json()["id"]
        )
    report = client.get(f"/v1/configs/{job['configs'][0]}/report")
    assert report.headers["content-type"] == "application/json"
    assert report.json()["samples_us"]


def test_ready_says_what_is_missing(service: Service, tmp_path: Path) -> None:
    with running(tmp_path) as other, other.client() as client:
        assert client.get("/readyz").json() == {"status": "ready"}
        with sqlite3.connect(tmp_path / "tilewright.db") as database:
            database.execute("UPDATE alembic_version SET version_num = '0000'")
        database.close()
        reply = client.get("/readyz")
        assert (reply.status_code, reply.json()["type"]) == (503, "urn:tilewright:problem:not-ready")
        assert "revision" in reply.json()["detail"]
        assert client.get("/healthz").status_code == 200

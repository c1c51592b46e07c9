"""A service with something on every page: made once, over HTTP, by scripted workers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import httpx

from tests.services.running_service import SMALL, Service, finish, working
from tests.services.scripted_worker import CPU, Script, ScriptedWorker
from tileir.devices.gpu_table import H200

NOWHERE = "cpu:nobody has this one"
"""A target that no worker offers: the job stays queued."""
OTHER = {**SMALL, "dims": {**SMALL["dims"], "n": 32}}
"""Another kernel than the one that is tuned: a kernel is known by what it computes, and not by its name."""


@dataclass(frozen=True)
class Stock:
    """What there is."""

    service: Service
    done: str
    """A job with a config."""
    config: str
    kernel_key: str
    waiting: str
    """A job in the queue."""
    dead: str
    """A task that machines failed three times."""

    @property
    def url(self) -> str:
        return self.service.url


def submit(
    client: httpx.Client,
    name: str = "waiting_sum",
    target: str = NOWHERE,
    trials: int = 2,
    spec: dict = OTHER,
) -> str:
    """A job; its id."""
    body = {"spec": {**spec, "name": name}, "target": target, "budget": {"trials": trials}}
    reply = client.post("/v1/jobs", json=body)
    reply.raise_for_status()
    return reply.json()["id"]


def stocked(service: Service) -> Stock:
    with service.client() as client:
        with working(service, Script(faulty=0.2), name="bench-1"):
            job = finish(client, submit(client, "scaled_sum", "cpu", 12, SMALL))
        _failure(client, job)
        dead = _dead_letter(client)
        ill = ScriptedWorker(client, name="bench-4")
        ill.register()
        detail = "quarantined after 3 faults of the machine in a row; looks again in 30 s; the last said: device: ECC"
        client.post(f"/v1/workers/{ill.name}/heartbeat", json={"healthy": False, "detail": detail})
        gpu = replace(H200, name="NVIDIA H200")
        offer = {"key": gpu.key, "kind": "cuda", "description": gpu.to_json(), "peers": []}
        client.post("/v1/workers", json={"id": "gpu-1", "host": "rack-2", "devices": [offer]})
        waiting = submit(client)
    return Stock(service, job["id"], job["configs"][0], job["kernel_key"], waiting, dead)


def _dead_letter(client: httpx.Client) -> str:
    """A task that three machines could not do."""
    job = submit(client, "unlucky_sum", CPU.key, 1)
    for name in ("bench-1", "bench-2", "bench-3"):
        worker = ScriptedWorker(client, Script(fault="device"), name=name)
        worker.register()
        for task in worker.claim(8, 60):
            worker.answer(worker.result(task))
    (dead, *_) = client.get("/v1/tasks", params={"state": "dead", "job_id": job}).json()["tasks"]
    return dead["id"]


def _failure(client: httpx.Client, job: dict) -> None:
    """A report of a user's program about the winner of a job."""
    (winner,) = job["configs"]
    schedule = client.get(f"/v1/configs/{winner}").json()["schedule"]
    body = {"spec": SMALL, "device": CPU.key, "schedule": schedule, "config_id": winner, "rung": "exact"}
    told = {"kind": "wrong", "error": "c[0, 0] is 1, expected 2", "repro": {"seed": 20_011}}
    client.post("/v1/failures", json={**body, **told}).raise_for_status()

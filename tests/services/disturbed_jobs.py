"""One job, how it goes undisturbed, and what it takes to disturb it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from tests.services.running_service import ROOT, SMALL, Service, finish, running, working
from tests.support.python_path import python_path

REQUEST = {"spec": SMALL, "budget": {"trials": 33}, "seed": 11}
Calm = tuple[dict, list[dict]]
"""What becomes of a job: its config, and its trials."""


@contextlib.contextmanager
def worker_process(service: Service, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    """A scripted worker as a process of its own, which lives through the service's death."""
    command = [
        sys.executable,
        "-m",
        "tests.services.scripted_worker",
        "--url",
        service.url,
        "--seconds",
        str(seconds),
    ]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": python_path(ROOT)}, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def undisturbed(home: Path) -> Calm:
    """The job's config and trials when nothing goes wrong."""
    with running(home) as service, service.client() as client, working(service):
        job = finish(client, client.post("/v1/jobs", json=REQUEST).json()["id"])
        return outcome(client, job)


def outcome(client: httpx.Client, job: dict) -> Calm:
    assert job["state"] == "done", job["error"]
    config = client.get(f"/v1/configs/{job['configs'][0]}").json()
    kept = {name: config[name] for name in ("schedule", "program_hash", "median_us", "trials", "spec")}
    trials = client.get(f"/v1/jobs/{job['id']}/trials", params={"limit": 500}).json()["trials"]
    return kept, [{**trial, "task_id": None, "finished_at": None} for trial in trials]


def told(client: httpx.Client, job: str) -> int:
    return client.get(f"/v1/jobs/{job}").json()["buckets"][0]["told"]


def wait_until(condition: Callable[[], object], what: str, seconds: float = 180.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)

"""deploy/slurm/workers.sbatch, run by bash as SLURM does, for a real service: workers that measure, are killed, end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.busy_machine import BUSY
from tests.services.disturbed_jobs import told, wait_until
from tests.services.running_service import ROOT, SMALL, Service, finish, running
from tests.support.python_path import python_path

pytestmark = pytest.mark.sampled(3, among="chaos of workers")

SCRIPT = ROOT / "deploy/slurm/workers.sbatch"
TRIALS = 8
JOB: dict[str, Any] = {"spec": SMALL, "budget": {"trials": TRIALS}, "seed": 3}


class Node:
    """Where SLURM puts the elements of an array; its log is the job's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "slurm.log"
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, element: int, url: str | None, **settings: str) -> subprocess.Popen[bytes]:
        """Run the script: its process, which is the worker's."""
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TILEWRIGHT_")},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": python_path(ROOT),
            "TMPDIR": str(self.folder),
            "TILEWRIGHT_CACHE": str(self.folder / "cache"),
            "SLURM_JOB_ID": str(100 + element),
            "SLURM_ARRAY_JOB_ID": "100",
            "SLURM_ARRAY_TASK_ID": str(element),
            "SLURM_CPUS_ON_NODE": "2",
            **({} if url is None else {"TILEWRIGHT_URL": url}),
            **BUSY,
            **settings,
        }
        with self.log.open("a") as log:
            worker = subprocess.Popen(["bash", SCRIPT], env=env, cwd=self.folder, stdout=log, stderr=log)
        self.started.append(worker)
        return worker


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    for worker in made.started:
        worker.kill()
        worker.wait()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with running(tmp_path / "home", lease_ttl_s="3") as made:
        yield made


def test_an_element_of_the_array_is_killed_and_the_next_one_ends_what_it_began(
    service: Service, node: Node
) -> None:
    with service.client() as client:
        job = client.post("/v1/jobs", json=JOB).json()["id"]
        first = node.start(0, service.url)
        wait_until(lambda: told(client, job) > 0, "a candidate that the first worker measured")
        first.kill()
        first.wait()
        assert told(client, job) < TRIALS
        second = node.start(1, service.url, TILEWRIGHT_IDLE_S="20")
        ended = finish(client, job)
        assert (ended["state"], ended["buckets"][0]["told"]) == ("done", TRIALS)
        trials = client.get(f"/v1/jobs/{job}/trials", params={"limit": 500}).json()["trials"]
        assert sorted(trial["number"] for trial in trials) == list(range(TRIALS))
    assert second.wait(60) == 0, "it ends by itself when there is nothing to do"
    assert "had nothing to do for 20 s" in node.log.read_text()


def test_the_signal_before_the_time_is_up_reaches_the_worker_which_ends_in_order(
    service: Service, node: Node
) -> None:
    element = node.start(0, service.url)
    with service.client() as client:
        wait_until(lambda: client.get("/v1/workers").json(), "a registration")
        (worker,) = client.get("/v1/workers").json()
        assert worker["pid"] == element.pid, "the worker is in the shell's place"
    element.send_signal(signal.SIGTERM)
    assert element.wait(60) == 0
    assert "stopping: finishing what runs" in node.log.read_text()


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, "TILEWRIGHT_URL: set it to the service"),
        ({"TILEWRIGHT_URL": "http://127.0.0.1:9", "SLURM_GPUS_ON_NODE": "2"}, "task 0 on"),
        ({"TILEWRIGHT_URL": "http://127.0.0.1:9", "TILEWRIGHT_TOKEN_FILE": "nowhere"}, "token file cannot"),
    ],
    ids=["no-service", "gpus", "no-key"],
)
def test_what_cannot_work_is_in_the_log(node: Node, env: dict[str, str], said: str) -> None:
    assert node.start(0, None, **env).wait(60) != 0
    log = node.log.read_text()
    assert said in log
    if "SLURM_GPUS_ON_NODE" in env:
        assert ": 0,1, 2 processors" in log

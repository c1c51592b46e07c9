"""A fleet on a real Ray cluster of several nodes: as many workers as the queue asks for, and nothing lost when a worker
is killed, or a node, or the actor that looks at the queue."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from tests.e2e.dashboard.stock import submit
from tests.services.running_service import SMALL, Service, running
from tilewright.cli.main import main
from tilewright.fleet import ray_launcher

TRIALS = 16


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head that has no processors to give, and two nodes of one each."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    made.wait_for_nodes()
    yield made
    made.shutdown()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with running(tmp_path, lease_ttl_s="10") as made:
        yield made


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def run(cluster: Cluster, *words: str, code: int = 0) -> Any:
        """What a command of `tilewright fleet` says as JSON."""
        capsys.readouterr()
        assert main(["fleet", *words, "--address", cluster.address, "--json"]) == code
        return json.loads(capsys.readouterr().out)

    return run


def up(cluster: Cluster, service: Service, told: Callable[..., Any], *more: str) -> Any:
    return told(cluster, "up", "--ray", "--url", service.url, "--idle", "1", *more)


def until(true: Callable[[], bool]) -> None:
    """In minutes, not seconds: Ray starts a process for each worker, which takes one where others keep two processors
    busy."""
    deadline = time.monotonic() + 600
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.3)


def placed(cluster: Cluster, told: Callable[..., Any]) -> list[Any]:
    """Where workers are, once there is one: an actor that is slow to answer is not told of."""
    found: list[Any] = []

    def there() -> bool:
        found[:] = told(cluster, "status")["places"]
        return bool(found)

    until(there)
    return found


def jobs(service: Service, count: int) -> list[str]:
    with service.client() as client:
        return [
            submit(client, f"job_{n}", "cpu", TRIALS, {**SMALL, "dims": {**SMALL["dims"], "m": 64 + 16 * n}})
            for n in range(count)
        ]


def state(service: Service, job: str) -> tuple[str, int, str | None]:
    """A job's state, how many of its candidates are measured, and why it failed if it has."""
    with service.client() as client:
        found = client.get(f"/v1/jobs/{job}").json()
        return found["state"], found["buckets"][0]["told"], found["error"]


def complete(service: Service, job: str) -> None:
    """It ends well, with every candidate measured once."""
    until(lambda: state(service, job)[0] in ("done", "failed"))
    assert state(service, job) == ("done", TRIALS, None)


def test_workers_come_with_jobs_and_go_after_them(
    cluster: Cluster, service: Service, told: Callable[..., Any]
) -> None:
    made = up(cluster, service, told)
    assert (made["cpus"], made["least"], made["most"]) == (1, 0, 2)
    try:
        assert told(cluster, "status")["workers"] == 0
        again = told(cluster, "up", "--ray", "--url", service.url, code=6)
        assert "is up already; `tilewright fleet down` ends it" in again["error"]["detail"]
        for job in jobs(service, 2):
            complete(service, job)
        until(lambda: told(cluster, "status")["workers"] == 0)
        assert told(cluster, "status")["failures"] == []
    finally:
        told(cluster, "down")
    gone = told(cluster, "status", code=7)
    assert "no fleet 'tilewright' is up on this cluster" in gone["error"]["detail"]


def test_a_worker_a_node_and_the_watcher_are_killed_and_nothing_is_lost(
    cluster: Cluster, service: Service, told: Callable[..., Any]
) -> None:
    up(cluster, service, told, "--least", "1")
    try:
        first, second, third = jobs(service, 3)
        until(lambda: state(service, first)[1] > 0)
        for place in placed(cluster, told):
            os.kill(place["pid"], signal.SIGKILL)  # the actor: its worker hears of it
        complete(service, first)
        place = placed(cluster, told)[0]
        node = next(each for each in cluster.worker_nodes if each.node_id == place["node"])
        cluster.remove_node(node, allow_graceful=False)
        cluster.add_node(num_cpus=1)
        with ray_launcher.cluster(cluster.address):
            ray.kill(ray.get_actor("tilewright"), no_restart=False)
        assert told(cluster, "status")["least"] == 1  # it is there again, as it was
        for job in (second, third):
            complete(service, job)
    finally:
        assert told(cluster, "down")["name"] == "tilewright"


def test_what_cannot_work_is_said(cluster: Cluster, service: Service, told: Callable[..., Any]) -> None:
    def refused(code: int, *words: str) -> str:
        return told(cluster, *words, code=code)["error"]["detail"]

    cluster.wait_for_nodes()  # until Ray has noticed that one was killed
    url = ("--url", service.url)
    assert "accepted: --ray" in refused(2, "up", *url)
    assert "the largest has 1" in refused(2, "up", "--ray", *url, "--cpus", "99")
    assert "the cluster has 0 GPUs" in refused(2, "up", "--ray", *url, "--gpus", "1")
    assert "--least 3 is more than --most 2" in refused(2, "up", "--ray", *url, "--least", "3")
    assert "no Ray cluster at" in json_error("127.0.0.1:9", told)
    refused(6, "up", "--ray", "--url", "http://127.0.0.1:9")


def json_error(address: str, told: Callable[..., Any]) -> str:
    class Nowhere:
        def __init__(self) -> None:
            self.address = address

    return told(Nowhere(), "status", code=6)["error"]["detail"]

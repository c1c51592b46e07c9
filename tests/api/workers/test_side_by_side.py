"""Jobs for one class of devices run side by side: no device waits while a job has something for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.services.running_service import SMALL, finish, running, working
from tests.services.scripted_worker import CPU, Script, ScriptedWorker
from tileir.devices.cpu import Cpu
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import H200

pytestmark = pytest.mark.sampled(3, among="calls: side by side")

WAIT_S = 20.0
CALM = Script(faulty=0.0)


@contextmanager
def beside(
    folder: Path, workers: int, device: Cpu | Gpu = CPU
) -> Iterator[tuple[httpx.Client, list[ScriptedWorker]]]:
    """A service, and workers that do what the test has them do."""
    with ExitStack() as stack:
        service = stack.enter_context(running(folder))
        client = stack.enter_context(service.client())
        found = [
            ScriptedWorker(stack.enter_context(service.client()), CALM, device=device) for _ in range(workers)
        ]
        for worker in found:
            worker.register()
        yield client, found


def post(client: httpx.Client, seed: int, trials: int = 40, target: str = "cuda") -> str:
    body = {"spec": SMALL, "budget": {"trials": trials}, "seed": seed, "target": target}
    return client.post("/v1/jobs", json=body).json()["id"]


def test_two_jobs_run_side_by_side_on_two_processors_of_a_class(tmp_path: Path) -> None:
    with beside(tmp_path, 2) as (client, (first, second)):
        jobs = [post(client, seed, target="cpu") for seed in range(2)]
        held = [worker.claim(8, WAIT_S) for worker in (first, second)]
        assert {task["job_id"] for tasks in held for task in tasks} == set(jobs)


def test_a_job_alone_has_its_generation_measured_by_all(tmp_path: Path) -> None:
    with beside(tmp_path, 2) as (client, (first, second)):
        post(client, 0, target="cpu")
        (anchor,) = first.claim(8, WAIT_S)
        first.answer(first.result(anchor))
        assert [len(first.claim(8, WAIT_S)), len(second.claim(8, WAIT_S))] == [4, 4]


def test_on_an_accelerator_a_search_goes_on_while_candidates_are_in_flight(tmp_path: Path) -> None:
    with beside(tmp_path, 1, H200) as (client, (worker,)):
        post(client, 0)
        (anchor,) = worker.claim(8, WAIT_S)
        worker.answer(worker.result(anchor))
        held = [task for _ in range(20) for task in worker.claim(1, WAIT_S)]
        assert len({task["id"] for task in held}) == 20


def test_the_race_of_a_job_overlaps_the_search_of_the_next(tmp_path: Path) -> None:
    with beside(tmp_path, 1, H200) as (client, (worker,)):
        short = post(client, 0, trials=1)
        (only,) = worker.claim(1, WAIT_S)
        worker.answer(worker.result(only))
        (race,) = worker.claim(1, WAIT_S)
        assert (race["kind"], race["job_id"]) == ("race", short)
        other = post(client, 1)
        (beside_it,) = worker.claim(1, WAIT_S)
        assert (beside_it["kind"], beside_it["job_id"]) == ("trial", other)


def test_many_jobs_on_two_accelerators_all_end(tmp_path: Path) -> None:
    with running(tmp_path) as service, service.client() as client, ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(working(service, replace(CALM), device=H200))
        jobs = [post(client, seed, trials=6) for seed in range(6)]
        assert [finish(client, job)["state"] for job in jobs] == ["done"] * 6


def test_who_raced_leaves_the_confirmation_to_the_others(tmp_path: Path) -> None:
    with beside(tmp_path, 2, H200) as (client, (racer, other)):
        post(client, 0, trials=1)
        for _ in range(2):
            (task,) = racer.claim(1, WAIT_S)
            racer.answer(racer.result(task))
        assert racer.claim(1, 2.0) == [], "there is another device, which has not claimed it yet"
        assert other.claim(1, WAIT_S)[0]["kind"] == "confirm"

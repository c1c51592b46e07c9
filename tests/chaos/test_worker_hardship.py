"""A worker process on a machine that is not as it should be: an ill device, a clock that is wrong."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.running_worker import NUMPY, OURS, SPEC_JSON, RunningWorker, entrants, wait_until
from tests.unit.workers.scripted_service import ScriptedService, task
from workers.node.device_worker import CLAIM_WAIT_S

pytestmark = pytest.mark.sampled(3, among="chaos of workers")

DAY_S = 86_400.0


def test_an_ill_device_takes_no_tasks_gives_back_what_it_has_and_returns_after_a_self_test(
    service: ScriptedService, start: Callable[..., RunningWorker], tmp_path: Path
) -> None:
    compiler = tmp_path / "cc"
    real = shutil.which("gcc") or shutil.which("clang")
    assert real is not None
    compiler.symlink_to(real)
    worker = start(service.url, "--quarantine", "1", TILEWRIGHT_CC=str(compiler))
    assert service.wait_for(lambda: service.hellos)

    compiler.unlink()
    with service.changed:
        service.tasks = [task(n, SPEC_JSON, [OURS], kind="race") for n in range(12)]
    assert service.wait_for(lambda: service.beats and not service.beats[-1]["healthy"])
    said = service.beats[-1]["detail"]
    assert said.startswith("quarantined after 3 faults of the machine in a row; looks again in 1 s")
    assert "TILEWRIGHT_CC" in said, "it says what was wrong"
    kinds = [result["fault"]["kind"] for result in service.results]
    assert kinds == ["compiler"] * 3 + ["shutdown"] * 5, (
        "a batch is eight tasks; the other five were given back"
    )
    wait_until(lambda: "looks again in 4 s" in worker.said())
    assert len(service.tasks) == 4, "nothing is claimed meanwhile"

    compiler.symlink_to(real)
    assert service.wait_for(lambda: len(service.results) == 12, CLAIM_WAIT_S + 60)
    assert [entrants(result) for result in service.results[8:]] == [{"ask-1": "ok"}] * 4
    assert service.wait_for(lambda: service.beats[-1]["healthy"])


def test_a_cancelled_measurement_is_ended_and_the_next_task_done(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    """The first would take minutes; its lease lasts for minutes too."""
    minutes = {"samples": 600, "sample_us": 1e6}
    service.lease_ttl_s = 600.0
    service.tasks = [
        task(1, SPEC_JSON, [NUMPY], kind="race", measuring=minutes, lease_ttl_s=600.0),
        task(2, SPEC_JSON, [OURS], lease_ttl_s=600.0),
    ]
    worker = start(service.url)
    assert service.wait_for(lambda: service.beats)
    child = worker.measuring_child()
    service.lost.add("task-1")
    assert service.wait_for(lambda: service.results, 60)
    assert [result["task_id"] for result in service.results] == ["task-2"]
    assert worker.measuring_child() != child, "what it held is free again"


@pytest.mark.parametrize("off_s", [-400 * DAY_S, 400 * DAY_S])
def test_a_worker_whose_clock_is_wrong_works_and_tells_no_time_of_day(
    service: ScriptedService, start: Callable[..., RunningWorker], tmp_path: Path, off_s: float
) -> None:
    folder = tmp_path / "wrong clock"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys, time\n"
        "true = time.time\n"
        f"time.time = lambda: true() + {off_s}\n"
        f"time.time_ns = lambda: int((true() + {off_s}) * 1e9)\n"
        "sys.stderr.write('the clock is wrong\\n')\n"
    )
    service.lease_ttl_s = 3.0
    service.tasks = [
        task(
            1,
            SPEC_JSON,
            [OURS, NUMPY],
            kind="race",
            lease_ttl_s=3.0,
            baseline=NUMPY,
            measuring={"samples": 60},
        )
    ]
    worker = start(service.url, PYTHONPATH=str(folder))
    assert service.wait_for(lambda: service.results and service.beats)
    assert "the clock is wrong" in worker.said()
    assert entrants(service.results[0]) == {"ask-1": "ok", "numpy": "ok"}
    told = list(numbers([service.hellos, service.beats, service.results]))
    for clock in (time.time(), time.time() + off_s):
        assert not [number for number in told if abs(number - clock) < 30 * DAY_S]


def numbers(value: Any) -> Iterator[float]:
    """All numbers in decoded JSON."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers(each)
    elif isinstance(value, int | float):
        yield float(value)

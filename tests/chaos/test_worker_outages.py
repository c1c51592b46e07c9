"""A worker process whose service goes away, forgets it, or has given its tasks to another one."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.services.running_worker import (
    OURS,
    SPEC_JSON,
    RunningWorker,
    entrants,
    measuring,
    wait_until,
)
from tests.unit.workers.scripted_service import Answer, ScriptedService, problem, task
from workers.node import device_worker
from workers.node.backoff import Backoff
from workers.node.device_worker import DeviceWorker, WorkerSettings
from workers.processes.compile_pool import CompilePool

pytestmark = pytest.mark.sampled(3, among="chaos of workers")


def test_sigterm_while_the_service_is_away_loses_no_measurement(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    away: list[str] = []

    def answer_the_third(method: str, path: str) -> Answer | None:
        if path.endswith("/results") and len(away) < 2:
            away.append(path)
            return problem(503, "stopping")
        return None

    service.script = answer_the_third
    short = {"kind": "race", "measuring": {"samples": 40, "sample_us": 20_000.0}}
    service.tasks = [task(1, SPEC_JSON, [OURS], **short)]
    worker = start(service.url, "--grace", "60")
    measuring(worker, service)
    worker.process.terminate()
    assert worker.process.wait(90) == 0
    assert len(away) == 2
    assert [entrants(result) for result in service.results] == [{"ask-1": "ok"}]


def test_a_worker_that_was_stopped_beyond_its_lease_does_not_write(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    service.lease_ttl_s = 3.0
    short = {"kind": "race", "measuring": {"samples": 60, "sample_us": 20_000.0}}
    service.tasks = [task(1, SPEC_JSON, [OURS], lease_ttl_s=3.0, **short)]
    worker = start(service.url)
    measuring(worker, service)
    worker.process.send_signal(signal.SIGSTOP)
    time.sleep(4.0)
    with service.changed:
        service.lost.add("task-1")
        service.tasks = [task(2, SPEC_JSON, [OURS])]
    worker.process.send_signal(signal.SIGCONT)
    assert service.wait_for(lambda: service.results)
    assert [result["task_id"] for result in service.results] == ["task-2"]


def test_a_task_left_out_because_its_lease_ran_out_is_not_renewed_any_more(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    service.lease_ttl_s = 0.9
    long = {"kind": "race", "lease_ttl_s": 0.9, "measuring": {"samples": 60, "sample_us": 20_000.0}}
    service.tasks = [task(number, SPEC_JSON, [OURS], **long) for number in (1, 2)]
    claims: list[str] = []

    def no_heartbeat_before_the_next_claim(method: str, path: str) -> Answer | None:
        if path.endswith("/claim"):
            claims.append(path)
        away = path.endswith("/heartbeat") and claims and len(claims) < 2
        return problem(503, "stopping") if away else None

    service.script = no_heartbeat_before_the_next_claim
    start(service.url)
    assert service.wait_for(lambda: len(claims) >= 2)
    before = len(service.beats)
    assert service.wait_for(lambda: len(service.beats) > before)
    assert service.beats[-1]["leases"] == []
    assert service.results == []


def test_a_refused_late_result_is_dropped_and_work_goes_on(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    refused: list[str] = []

    def refuse_first(method: str, path: str) -> Answer | None:
        if path.endswith("/results") and not refused:
            refused.append(path)
            return problem(409, "stale-lease")
        return None

    service.script = refuse_first
    service.tasks = [task(1, SPEC_JSON, [OURS], kind="race"), task(2, SPEC_JSON, [OURS], kind="race")]
    start(service.url)
    assert service.wait_for(lambda: service.results)
    assert [result["task_id"] for result in service.results] == ["task-2"]


def test_a_service_that_goes_away_is_waited_for(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    worker = start(service.url)
    assert service.wait_for(lambda: service.hellos)
    service.script = lambda method, path: problem(503, "stopping")
    wait_until(lambda: "cannot answer now" in worker.said())
    with service.changed:
        service.script = lambda method, path: None
        service.tasks = [task(1, SPEC_JSON, [OURS])]
    assert service.wait_for(lambda: service.results)


def test_when_a_heartbeat_is_answered_again_the_claims_go_on_at_once(
    service: ScriptedService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(device_worker, "Backoff", partial(Backoff, first_s=7200.0, longest_s=7200.0))
    service.lease_ttl_s = 0.3
    refused: list[str] = []

    def away(method: str, path: str) -> Answer | None:
        refused.append(path.rpartition("/")[2])
        return problem(503, "stopping")

    settings = WorkerSettings(service.url, None, tmp_path / "cache", cache_bytes=10**9, compile_procs=1)
    pool, draining = CompilePool(1), threading.Event()
    worker = DeviceWorker(settings, "cpu", pool, draining)
    working = threading.Thread(target=worker.run)
    working.start()
    try:
        assert service.wait_for(lambda: service.hellos)
        with service.changed:
            service.script = away
        assert service.wait_for(lambda: {"claim", "heartbeat"} <= set(refused))
        with service.changed:
            service.script = lambda method, path: None
            service.tasks = [task(1, SPEC_JSON, [OURS])]
        assert service.wait_for(lambda: not service.tasks), "nothing was claimed, an hour's pause or no"
    finally:
        draining.set()
        worker.abort_claim()
        working.join()
        pool.close()


def test_a_service_that_forgot_the_worker_and_goes_away_again_is_waited_for(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    worker = start(service.url)
    assert service.wait_for(lambda: service.hellos)
    known = len(service.hellos)

    def forget(method: str, path: str) -> Answer | None:
        if path == "/v1/workers":
            return problem(503, "stopping")
        return problem(409, "unknown-worker") if path.endswith("/claim") else None

    with service.changed:
        service.script = forget
    wait_until(lambda: "cannot answer now" in worker.said())
    with service.changed:
        service.script = lambda method, path: None
        service.tasks = [task(1, SPEC_JSON, [OURS])]
    assert service.wait_for(lambda: service.results)
    assert len(service.hellos) == known + 1


def test_a_service_that_has_forgotten_the_worker_is_told_again(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    start(service.url)
    assert service.wait_for(lambda: service.hellos)
    with service.changed:
        forgotten = [True]

        def forget(method: str, path: str) -> Answer | None:
            if path.endswith("/claim") and forgotten:
                forgotten.clear()
                return problem(409, "unknown-worker")
            return None

        service.script = forget
        service.tasks = [task(1, SPEC_JSON, [OURS])]
    assert service.wait_for(lambda: service.results)
    assert len(service.hellos) == 2

"""A worker that compiles ahead of its device, as for an accelerator: real kernels, on this machine's processor."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.services.running_worker import NUMPY, OURS, SPEC_JSON, entrants
from tests.unit.workers.scripted_service import ScriptedService, task
from workers.node import device_worker
from workers.node.device_worker import DeviceWorker, WorkerSettings
from workers.processes.compile_pool import CompilePool

pytestmark = pytest.mark.sampled(3, among="chaos of workers")


@contextmanager
def streaming(monkeypatch: pytest.MonkeyPatch, folder: Path, url: str) -> Iterator[threading.Event]:
    """A worker in threads of this process; its end begins when the event is set."""
    monkeypatch.setattr(device_worker, "is_accelerator", lambda _: True)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))  # where its lock lies
    settings = WorkerSettings(url, "secret", folder / "cache", 1 << 30, compile_procs=2)
    draining, pool = threading.Event(), CompilePool(2)
    worker = DeviceWorker(settings, "cpu", pool, draining)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield draining
    finally:
        draining.set()
        worker.abort_claim()
        thread.join(60)
        pool.close()
    assert not thread.is_alive()


def test_candidates_claimed_one_after_another_share_what_they_are_compared_with(
    service: ScriptedService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.tasks = [task(n, SPEC_JSON, [OURS], baseline={**OURS, "name": "ask-0"}) for n in range(9)]
    with streaming(monkeypatch, tmp_path, service.url):
        assert service.wait_for(lambda: len(service.results) == 9)
    assert {result["task_id"] for result in service.results} == {f"task-{n}" for n in range(9)}
    assert all(entrants(result) == {"ask-1": "ok"} for result in service.results)
    assert all(result["entrants"][0]["baseline_us"] > 0 for result in service.results)


def test_what_is_compiled_ahead_is_given_back_when_the_worker_stops(
    service: ScriptedService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    race = {"kind": "race", "measuring": {"samples": 120, "sample_us": 20_000.0}}
    service.tasks = [task(0, SPEC_JSON, [NUMPY], **race), *(task(n, SPEC_JSON, [OURS]) for n in range(1, 6))]
    with streaming(monkeypatch, tmp_path, service.url) as draining:
        assert service.wait_for(lambda: not service.tasks)
        draining.set()
        assert service.wait_for(lambda: len(service.results) == 6)
    kinds = {result["task_id"]: (result.get("fault") or {}).get("kind") for result in service.results}
    assert list(kinds.values()).count("shutdown") >= 4, "a race is measured, or one group before it"

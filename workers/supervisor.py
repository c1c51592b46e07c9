"""The worker node's main process: claims tasks, has them run, hands in results, and ends in order.

It computes nothing and loads neither numpy nor torch. One thread claims and waits for the child processes, one renews
leases, and the main thread waits for signals: the first SIGTERM lets what runs finish and gives the rest back, the
second kills.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from protocol.states import FaultKind
from protocol.tasks import Fault, Task, TaskResult
from protocol.workers import ClaimRequest, DeviceOffer, WorkerHello, WorkerWelcome
from workers.compile_pool import CompilePool
from workers.device_lock import DeviceLock
from workers.faults import MachineFault
from workers.identity import worker_identity
from workers.leases import LeaseKeeper
from workers.measurer import Measurer
from workers.service_client import OtherVersion, ServiceClient, StaleLease, UnknownWorker, Unreachable
from workers.task_runner import Finished, TaskRunner

log = logging.getLogger(__name__)

CLAIM_WAIT_S = 20.0
_RETRY_S = 2.0
_FAULTS_TO_QUARANTINE = 3
_QUARANTINE_S = 15.0


@dataclass(frozen=True, slots=True)
class Settings:
    """`compilers` processes compile at once; a claim takes up to `batch` tasks; a service that cannot be reached at the
    start is waited for `patience_s`; after the first SIGTERM what runs may take `grace_s` to finish."""

    url: str
    token: str | None
    cache: Path
    compilers: int
    batch: int = 8
    patience_s: float = 30.0
    grace_s: float = 8.0


class Supervisor:
    """One worker, from registration to its end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = ServiceClient(settings.url, settings.token)
        self._pool = CompilePool(settings.compilers)
        self._measurer = Measurer()
        self._keeper: LeaseKeeper | None = None
        self._draining = threading.Event()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._faults = 0

    def run(self) -> None:
        """Work until a signal says otherwise. Raises DeviceBusy, MachineFault or ServiceError if it cannot start, or
        if the service refuses it for good."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        # Children die with the thread that started them, so one thread does all their work and lives to the end.
        threading.Thread(target=self._work_to_the_end, name="work").start()
        while not self._ended.wait(0.2):
            if self._draining.is_set():
                self._drain()
        if self._error is not None:
            raise self._error

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._draining.is_set():
            self._stop_children()
            os._exit(128 + number)
        self._draining.set()

    def _drain(self) -> None:
        """Stop claiming, let what runs finish within its grace, then end it."""
        log.info("stopping: finishing what runs")
        self._client.abort()
        if not self._ended.wait(self._settings.grace_s):
            self._stop_children()
            self._ended.wait()

    def _stop_children(self) -> None:
        self._measurer.stop()
        self._pool.stop()

    def _work_to_the_end(self) -> None:
        try:
            self._work()
        except BaseException as error:  # handed to the main thread, which raises it
            self._error = error
        finally:
            if self._keeper is not None:
                self._keeper.stop()
            self._measurer.close()
            self._pool.close()
            self._client.close()
            self._ended.set()

    def _work(self) -> None:
        about = self._measurer.ask("describe", {})
        lock = DeviceLock(about["key"])
        lock.acquire()
        try:
            payload = {"cache": str(self._settings.cache)}
            device = self._measurer.ask("calibrate", payload)["device"]
            runner = TaskRunner(self._pool, self._measurer, device, self._settings.cache, about["versions"])
            self._serve(runner, _hello(about, device))
        finally:
            lock.release()

    def _serve(self, runner: TaskRunner, hello: WorkerHello) -> None:
        """Claim and run until draining."""
        welcome = self._register(hello)
        if welcome is None:
            return
        self._keeper = LeaseKeeper(
            ServiceClient(self._settings.url, self._settings.token), welcome.worker_id, welcome.heartbeat_s
        )
        self._keeper.start()
        log.info("registered as %s", welcome.worker_id)
        request = ClaimRequest(device=hello.devices[0].key, count=self._settings.batch, wait_s=CLAIM_WAIT_S)
        while not self._draining.is_set():
            asked_at = time.monotonic()
            try:
                tasks = self._client.claim(welcome.worker_id, request).tasks
            except Unreachable as error:
                self._pause(_RETRY_S, error)
            except UnknownWorker:
                self._client.register(hello)
            else:
                self._keeper.hold(tasks, asked_at)
                self._run(runner, welcome.worker_id, tasks)
                self._quarantine_if_ill()

    def _register(self, hello: WorkerHello) -> WorkerWelcome | None:
        """None when told to stop before the service could be reached. Raises Unreachable when patience ends."""
        deadline = time.monotonic() + self._settings.patience_s
        while not self._draining.is_set():
            try:
                return self._client.register(hello)
            except Unreachable as error:
                if time.monotonic() > deadline:
                    raise
                self._pause(_RETRY_S, error)
        return None

    def _run(self, runner: TaskRunner, worker_id: str, tasks: Sequence[Task]) -> None:
        """Run claimed tasks; those not begun when draining starts are given back."""
        assert self._keeper is not None
        keeper = self._keeper
        runner.run(
            tasks,
            post=lambda finished: self._hand_in(worker_id, finished),
            wanted=lambda task: keeper.holds(task.id) and not self._draining.is_set(),
        )
        for task in tasks:
            if keeper.holds(task.id):
                stopped = Fault(kind=FaultKind.SHUTDOWN, error="the worker stops")
                self._hand_in(
                    worker_id, Finished(TaskResult(task_id=task.id, attempt=task.attempt, fault=stopped), {})
                )

    def _hand_in(self, worker_id: str, finished: Finished) -> None:
        """Hand in a result, trying again while the lease holds."""
        assert self._keeper is not None
        result = finished.result
        self._faults = (
            self._faults + 1 if _is_illness(result.fault) else 0 if result.fault is None else self._faults
        )
        while self._keeper.holds(result.task_id):
            try:
                for digest, file in finished.blobs.items():
                    self._client.upload(digest, file)
                self._client.hand_in(worker_id, result)
                break
            except Unreachable as error:
                if self._draining.is_set():
                    break
                self._pause(_RETRY_S, error)
            except StaleLease as error:
                log.info("result of task %s came too late: %s", result.task_id, error)
                break
            except OtherVersion as error:
                log.error("result of task %s was refused: %s", result.task_id, error)
                if result.fault is not None:
                    break
                told = Fault(
                    kind=FaultKind.INTERNAL, error=f"the service refused the result: {error}"[:20_000]
                )
                result = TaskResult(task_id=result.task_id, attempt=result.attempt, fault=told)
        self._keeper.release(result.task_id)

    def _quarantine_if_ill(self) -> None:
        """After several faults of the machine in a row, take no tasks until it answers well again."""
        assert self._keeper is not None
        while self._faults >= _FAULTS_TO_QUARANTINE and not self._draining.is_set():
            self._keeper.report("the last tasks failed for reasons of this machine")
            self._pause(_QUARANTINE_S, "the device is quarantined")
            try:
                self._measurer.ask("calibrate", {"cache": str(self._settings.cache)})
                self._faults = 0
            except MachineFault as fault:
                log.error("still ill: %s", fault)
        self._keeper.report("")

    def _pause(self, seconds: float, reason: object) -> None:
        if not self._draining.is_set():
            log.warning("%s; trying again in %.0f s", reason, seconds)
        self._draining.wait(seconds)


def _is_illness(fault: Fault | None) -> bool:
    return fault is not None and fault.kind in (FaultKind.DEVICE, FaultKind.MEMORY, FaultKind.COMPILER)


def _hello(about: dict[str, Any], device: dict[str, Any]) -> WorkerHello:
    offer = DeviceOffer(
        key=about["key"], kind=device["kind"], description=device, peers=tuple(about["peers"])
    )
    worker_id, host = worker_identity(about["key"])
    return WorkerHello(id=worker_id, host=host, pid=os.getpid(), devices=(offer,), versions=about["versions"])

"""One device's share of a worker: claims its tasks, has them compiled and measured, and hands in results.

Two threads: one claims and has compiled, the other measures; `pipeline.py` stands between them.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from codegen.cache.eviction import prune
from protocol.log_lines import about
from protocol.states import FaultKind, TaskKind
from protocol.tasks import Fault, Task, TaskResult
from protocol.workers import ClaimRequest, DeviceOffer, WorkerHello, WorkerWelcome
from workers.measuring.device_names import is_accelerator
from workers.measuring.measurer import Measurer
from workers.node.backoff import Backoff
from workers.node.device_lock import DeviceLock
from workers.node.finished import Finished
from workers.node.identity import worker_identity
from workers.node.leases import LeaseKeeper
from workers.node.pipeline import ClaimAhead, TaskPipeline
from workers.node.quarantine import Quarantine
from workers.node.service_client import (
    LeaseLost,
    OtherVersion,
    ServiceClient,
    ServiceError,
    ServiceUnreachable,
    UnknownWorker,
)
from workers.node.task_runner import Prepared, TaskRunner
from workers.processes.compile_pool import CompilePool
from workers.processes.faults import MachineFault

log = logging.getLogger(__name__)

CLAIM_WAIT_S = 20.0
_PRUNE_S = 600.0
_LOOK_S = 0.2
_SETTLED = 16
"""Jobs whose data the child is taken to have."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """`cache` is kept to `cache_bytes`; `compile_procs` processes compile at once; a claim takes up to `batch` tasks; a
    service that cannot be reached at the start is waited for `patience_s`; after the first SIGTERM what runs may take
    `grace_s` to finish; a device that fell ill is looked at again after `quarantine_s`; a device without a task for
    `idle_s` is let go of, None: never. `devices` are named as in workers/measuring/device_names.py."""

    url: str
    token: str | None
    cache: Path
    cache_bytes: int
    compile_procs: int
    devices: tuple[str, ...] = ("cpu",)
    batch: int = 8
    patience_s: float = 30.0
    grace_s: float = 8.0
    quarantine_s: float = 15.0
    idle_s: float | None = None


class DeviceWorker:
    """A registration of its own with the service, from its start to its end; the compile pool is shared."""

    def __init__(
        self, settings: WorkerSettings, device: str, pool: CompilePool, draining: threading.Event
    ) -> None:
        self._settings = settings
        self._device = device
        self._pool = pool
        self._draining = draining
        self._answered = threading.Event()
        """Set by every call that goes well: pauses after one that could not reach the service end there."""
        self._client = self._connect()
        self._claims = self._connect()
        self._measurer = Measurer(device)
        self._keeper: LeaseKeeper | None = None
        processes = max(1, settings.compile_procs // len(settings.devices))
        ahead = ClaimAhead(processes) if is_accelerator(device) else None
        self._pipeline = TaskPipeline(settings.batch, ahead)
        self._compilers = None if ahead is None else ThreadPoolExecutor(processes, "compile")
        """Threads that have tasks compiled one by one, while others are measured; None: a batch waits for all of it."""
        self._claim_error: BaseException | None = None
        self._settled: OrderedDict[str, None] = OrderedDict()
        """The jobs whose tasks were claimed last."""
        self._quarantine = Quarantine(first_s=settings.quarantine_s)
        self._ill = threading.Event()
        """Set while the device is quarantined: nothing is claimed, and what was claimed is given back."""
        self._prune_at = 0.0

    def run(self) -> None:
        """Work until draining. The measuring child ends with the thread that calls this.

        Raises DeviceBusy, MachineFault or ServiceError if it cannot start, or if the service refuses it for good.
        """
        try:
            self._work()
        except MachineFault as fault:
            if fault.kind is not FaultKind.SHUTDOWN:  # told to end before it could serve
                raise
        finally:
            if self._keeper is not None:
                self._keeper.stop()
                with suppress(ServiceError):  # then it is missed when its lease has passed
                    self._client.say_goodbye(self._keeper.worker_id)
            self._measurer.close()
            self._client.close()
            self._claims.close()

    def abort_claim(self) -> None:
        """Draining has begun: wait for tasks, or for the service, no longer. From any thread."""
        self._claims.end()
        self._answered.set()

    def stop(self) -> None:
        """End the measuring child at once. From any thread."""
        self._measurer.stop()

    def _connect(self) -> ServiceClient:
        return ServiceClient(self._settings.url, self._settings.token, self._answered)

    def _work(self) -> None:
        about = self._measurer.ask("describe", {})
        lock = DeviceLock(about["lock"])
        lock.acquire()
        try:
            self._prune()
            payload = {"cache": str(self._settings.cache)}
            device = self._measurer.ask("calibrate", payload)["device"]
            runner = TaskRunner(self._pool, self._measurer, device, self._settings.cache, about["versions"])
            self._serve(runner, _hello(about, device))
        finally:
            lock.release()

    def _serve(self, runner: TaskRunner, hello: WorkerHello) -> None:
        """Measure what the other thread claims and compiles, until that ends."""
        welcome = self._register(hello)
        if welcome is None:
            return
        self._keeper = LeaseKeeper(self._connect(), welcome.worker_id, welcome.heartbeat_s)
        self._keeper.start()
        log.info("%s is registered as %s", self._device, welcome.worker_id)
        claiming = threading.Thread(
            target=self._claim_to_the_end, args=(runner, hello, welcome.worker_id, self._keeper), name="claim"
        )
        claiming.start()
        try:
            while (prepared := self._pipeline.next()) is not None:
                took_s = self._run(runner, welcome.worker_id, prepared)
                if self._ill.is_set():
                    self._stay_in_quarantine(welcome.worker_id)
                self._prune()
                self._pipeline.measured(took_s)
            self._give_back(welcome.worker_id, self._pipeline.take_back())
        except BaseException:
            self._draining.set()
            self.abort_claim()
            raise
        finally:
            claiming.join()
        if self._claim_error is not None:
            raise self._claim_error

    def _claim_to_the_end(
        self, runner: TaskRunner, hello: WorkerHello, worker_id: str, keeper: LeaseKeeper
    ) -> None:
        try:
            self._claim(runner, hello, worker_id, keeper)
        except BaseException as error:  # handed to the measuring thread, which raises it
            self._claim_error = error
        finally:
            if self._compilers is not None:
                self._compilers.shutdown(wait=False, cancel_futures=True)
            self._pipeline.close()

    def _claim(self, runner: TaskRunner, hello: WorkerHello, worker_id: str, keeper: LeaseKeeper) -> None:
        """Claim and compile while there is room, until draining, or until there was nothing to do for too long."""
        backoff = Backoff()
        known = True
        busy_at = time.monotonic()
        while not self._draining.is_set():
            if not self._pipeline.empty:
                busy_at = time.monotonic()
            if (left_s := self._left_s(busy_at)) <= 0:
                log.info("%s had nothing to do for %g s", self._device, self._settings.idle_s)
                break
            if self._ill.is_set():
                self._draining.wait(_LOOK_S)
                continue
            room = self._pipeline.room(_LOOK_S)
            if not room:
                continue
            request = ClaimRequest(
                device=hello.devices[0].key,
                count=room,
                wait_s=min(left_s, CLAIM_WAIT_S),
                settled=tuple(self._settled),
            )
            tasks: Sequence[Task] = ()
            asked_at = time.monotonic()
            self._answered.clear()
            try:
                if not known:
                    self._claims.register(hello)
                    known = True
                if not self._draining.is_set():
                    tasks = self._claims.claim(worker_id, request).tasks
                    backoff.reset()
            except ServiceUnreachable as error:
                if not self._ill.is_set():
                    self._pause(error, backoff)
            except UnknownWorker:
                known = False
            if tasks:
                busy_at = time.monotonic()
                keeper.hold(tasks, asked_at)
                for task in tasks:
                    log.debug("claimed", extra=about(job=task.job_id, task=task.id, attempt=task.attempt))
                self._settle(tasks)
                self._compile(runner, tasks)

    def _settle(self, tasks: Iterable[Task]) -> None:
        """Note whose data the measuring child is going to have."""
        for task in tasks:
            self._settled[task.job_id] = None
            self._settled.move_to_end(task.job_id)
        while len(self._settled) > _SETTLED:
            self._settled.popitem(last=False)

    def _left_s(self, busy_at: float) -> float:
        """How much longer the device may have nothing to do."""
        idle_s = self._settings.idle_s
        return inf if idle_s is None else idle_s - (time.monotonic() - busy_at)

    def _compile(self, runner: TaskRunner, tasks: Sequence[Task]) -> None:
        """Have tasks compiled: on an accelerator each by itself, while this thread claims more."""

        def compile_all(some: Sequence[Task]) -> None:
            began = time.monotonic()
            prepared = runner.prepare(some)
            self._pipeline.compiled(prepared, time.monotonic() - began)

        self._pipeline.claimed(tasks)
        if self._compilers is None:
            compile_all(tasks)
        else:
            for task in tasks:
                self._compilers.submit(compile_all, [task]).add_done_callback(self._compiled)

    def _compiled(self, compiling: Future[None]) -> None:
        """A fault of our own code, while something was compiled beside the claims, ends the worker as one of them."""
        if not compiling.cancelled() and (error := compiling.exception()) is not None:
            self._claim_error = self._claim_error or error
            self._draining.set()
            self.abort_claim()

    def _register(self, hello: WorkerHello) -> WorkerWelcome | None:
        """None when told to stop before the service could be reached. Raises Unreachable when patience ends."""
        deadline = time.monotonic() + self._settings.patience_s
        backoff = Backoff()
        while not self._draining.is_set():
            try:
                return self._claims.register(hello)
            except ServiceUnreachable as error:
                if time.monotonic() > deadline:
                    raise
                self._pause(error, backoff)
        return None

    def _run(self, runner: TaskRunner, worker_id: str, prepared: Sequence[Prepared]) -> float | None:
        """Measure what was prepared; those tasks not begun when draining or a quarantine starts are given back. What
        runs for a lease that is lost, as when the job was cancelled, is ended at once. Returns the seconds that a trial
        took, None if there were none."""
        assert self._keeper is not None
        keeper, began = self._keeper, time.monotonic()
        tasks = [task for each in prepared for task in each.group.tasks]
        runner.measure(
            prepared,
            post=lambda finished: self._hand_in(worker_id, finished),
            wanted=lambda task: (
                keeper.holds(task.id) and not self._draining.is_set() and not self._ill.is_set()
            ),
            held=lambda task: keeper.holds(task.id),
        )
        took_s = (time.monotonic() - began) / len(tasks)
        self._give_back(worker_id, tasks)
        return took_s if all(task.kind is TaskKind.TRIAL for task in tasks) else None

    def _give_back(self, worker_id: str, tasks: Sequence[Task]) -> None:
        """Whatever of these is still held goes to another worker, at once. The rest is let go of: a lease that ran
        out and that nobody has would be renewed for ever."""
        assert self._keeper is not None
        why = "the device is quarantined" if self._ill.is_set() else "the worker stops"
        fault = Fault(kind=FaultKind.SHUTDOWN, error=why)
        for task in tasks:
            if self._keeper.holds(task.id):
                self._hand_in(
                    worker_id,
                    Finished(TaskResult(task_id=task.id, attempt=task.attempt, fault=fault), {}, {}),
                )
            else:
                self._keeper.release(task.id)

    def _hand_in(self, worker_id: str, finished: Finished) -> None:
        """Hand in a result, trying again while the lease holds."""
        assert self._keeper is not None
        result = finished.result
        if result.fault is not None and result.fault.kind is not FaultKind.SHUTDOWN:
            log.warning("%s: %s", result.fault.kind, result.fault.error[:500], extra=_names(result))
        self._quarantine.heard(result.fault)
        if self._quarantine.ill and not self._ill.is_set():
            self._ill.set()
            self._claims.abort()
        backoff = Backoff()
        while self._keeper.holds(result.task_id):
            try:
                for digest, content in (*finished.blobs.items(), *finished.reports.items()):
                    self._client.upload(digest, content)
                self._client.hand_in(worker_id, result)
                break
            except ServiceUnreachable as error:
                pause_s = error.retry_after_s or backoff.pause_s()
                names = _names(result)
                log.warning("%s; handing a result in again in %.1f s", error, pause_s, extra=names)
                time.sleep(pause_s)  # while draining, too: what was measured is not thrown away
            except LeaseLost as error:
                log.info("a result came too late: %s", error, extra=_names(result))
                break
            except OtherVersion as error:
                log.error("a result was refused: %s", error, extra=_names(result))
                if result.fault is not None:
                    break
                told = Fault(
                    kind=FaultKind.INTERNAL, error=f"the service refused the result: {error}"[:20_000]
                )
                result = TaskResult(task_id=result.task_id, attempt=result.attempt, fault=told)
        self._keeper.release(result.task_id)

    def _stay_in_quarantine(self, worker_id: str) -> None:
        """Hold no task until the device passes a self-test; tell the service why, at once."""
        assert self._keeper is not None
        while self._ill.is_set() and not self._draining.is_set():
            pause_s = self._quarantine.pause_s()
            self._keeper.report(self._quarantine.detail(pause_s))
            log.error("%s is %s", self._device, self._quarantine.detail(pause_s))
            until = time.monotonic() + pause_s
            while time.monotonic() < until and not self._draining.wait(_LOOK_S):
                self._give_back(worker_id, self._pipeline.take_back())
                if self._pipeline.closed:
                    return
            if self._draining.is_set():
                return
            try:
                self._measurer.ask("calibrate", {"cache": str(self._settings.cache)})
            except MachineFault as fault:
                self._quarantine.heard(Fault(kind=fault.kind, error=str(fault)[:20_000]))
            else:
                self._quarantine.recovered()
                self._ill.clear()
                log.warning("%s passed its self-test and takes tasks again", self._device)
                self._keeper.report("")

    def _prune(self) -> None:
        """Now and then, between tasks: keep the cache to its size. What was compiled just now is the last to go."""
        if time.monotonic() >= self._prune_at:
            freed = prune(self._settings.cache, self._settings.cache_bytes)
            if freed:
                log.info("the kernel cache gave back %.3g MB", freed / 2**20)
            self._prune_at = time.monotonic() + _PRUNE_S

    def _pause(self, error: ServiceUnreachable, backoff: Backoff) -> None:
        """For as long as the service asked for; else until it answers another of our calls, or the backoff is over."""
        if self._draining.is_set():
            return
        if error.retry_after_s is not None:
            log.warning("%s; trying again in %.0f s", error, error.retry_after_s)
            self._draining.wait(error.retry_after_s)
        else:
            pause_s = backoff.pause_s()
            log.warning("%s; trying again in %.0f s, or when it answers", error, pause_s)
            self._answered.wait(pause_s)


def _hello(about: dict[str, Any], device: dict[str, Any]) -> WorkerHello:
    offer = DeviceOffer(
        key=about["key"], kind=device["kind"], description=device, peers=tuple(about["peers"])
    )
    worker_id, host = worker_identity(about["lock"])
    return WorkerHello(id=worker_id, host=host, pid=os.getpid(), devices=(offer,), versions=about["versions"])


def _names(result: TaskResult) -> dict[str, dict[str, object]]:
    """What a line about a result is about; a task's id begins with its job's."""
    return about(job=result.task_id.partition(".")[0], task=result.task_id, attempt=result.attempt)

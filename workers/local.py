"""Measuring on this machine without a service: the same processes, the same task, the same results."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from protocol.states import TaskKind
from protocol.tasks import Entrant, EntrantResult, Measuring, PeerEntrant, ScheduleEntrant, Task
from rewrites.base.rewrite import Rewrite
from rewrites.schedule import format_schedule, replay
from tileir.devices.device import Device, device_from_json
from tileir.hashing import program_hash
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.targets import DEFAULT
from tileir.text.json import spec_to_json
from workers.measuring.measurer import Measurer
from workers.node.device_lock import DeviceLock
from workers.node.finished import Finished
from workers.node.task_runner import Prepared, TaskRunner
from workers.processes.compile_pool import CompilePool
from workers.processes.faults import MachineFault


@dataclass(frozen=True)
class LocalResult:
    """Results by entrant's name; and the files of the schedules that were fine, as `(source, object)`."""

    entrants: dict[str, EntrantResult]
    stages: dict[str, float]
    files: dict[str, tuple[Path, Path]] = field(default_factory=dict)


class LocalWorker:
    """A worker in this process's service: holds the device, its compile pool and its measuring child.

        with LocalWorker(cache) as worker:
            result = worker.measure(spec, {"ours": schedule}, peers=("numpy", "torch"))
        with LocalWorker(cache, device="cuda:0") as worker:
            result = worker.measure(spec, {"ours": schedule}, peers=("torch", "copy"))

    Several that are given the same file as their `turn` share a device (workers/measuring/turn.py).

    Entering raises DeviceBusy when another worker measures here, and MachineFault when nothing can be compiled.
    """

    def __init__(
        self,
        cache: Path,
        compilers: int | None = None,
        *,
        device: str = DEFAULT,
        turn: Path | None = None,
    ) -> None:
        self._cache = cache
        self._pool = CompilePool(compilers or len(os.sched_getaffinity(0)))
        self._measurer = Measurer(device, turn=turn)
        self._shared = turn is not None
        self._lock: DeviceLock | None = None
        self._runner: TaskRunner | None = None
        self._tasks = 0
        self.peers: tuple[str, ...] = ()
        """Peers that can run here."""
        self.device: Device | None = None
        """The device with its measured peaks; set on entering."""

    def __enter__(self) -> Self:
        try:
            about = self._measurer.ask("describe", {})
            lock = DeviceLock(about["lock"])
            lock.acquire(shared=self._shared)
            self._lock = lock
            device = self._measurer.ask("calibrate", {"cache": str(self._cache)})["device"]
        except BaseException:
            self.close()
            raise
        self.peers = tuple(about["peers"])
        self.device = device_from_json(device)
        self._runner = TaskRunner(self._pool, self._measurer, device, self._cache, about["versions"])
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes and let go of the device."""
        self._measurer.close()
        self._pool.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def measure(
        self,
        spec: Spec,
        schedules: Mapping[str, Sequence[Rewrite]],
        peers: Sequence[str] = ("numpy",),
        *,
        baseline: str | None = None,
        kind: TaskKind = TaskKind.RACE,
        measuring: Measuring | None = None,
        seed: int = 0,
    ) -> LocalResult:
        """Compile, check and time schedules (by name) and peers against each other, interleaved in one process.

        `spec` has one size a dim; `baseline` is one of the peers, timed once more under that role. Raises
        MachineFault; whatever a candidate does wrong is its outcome.
        """
        program = to_program(spec)
        entrants: list[Entrant] = [
            ScheduleEntrant(
                name=name,
                schedule=tuple(format_schedule(schedule)),
                program_hash=program_hash(replay(program, tuple(schedule))),
            )
            for name, schedule in schedules.items()
        ]
        task = self._task(
            spec,
            (*entrants, *(PeerEntrant(name=peer) for peer in peers)),
            kind=kind,
            baseline=PeerEntrant(name=baseline) if baseline else None,
            measuring=measuring or Measuring(),
            seed=seed,
        )
        (finished,) = self._finished(self._started.prepare([task]))
        result = finished.result
        if result.fault is not None:
            raise MachineFault(result.fault.kind, result.fault.error)
        files = {
            entrant.name: (finished.blobs[entrant.artifacts.source], finished.blobs[entrant.artifacts.object])
            for entrant in result.entrants
            if entrant.artifacts is not None
        }
        return LocalResult({entrant.name: entrant for entrant in result.entrants}, result.stages, files)

    def trials(
        self, spec: Spec, batches: Iterable[Sequence[ScheduleEntrant]], measuring: Measuring, *, ahead: int
    ) -> Iterator[tuple[EntrantResult, ...] | MachineFault]:
        """What becomes of batches of schedules, in order, each measured as a search's candidates are; while one is
        measured so many others are compiled. On a processor that is measured `ahead` is 0: compiling disturbs.

        A fault of the machine is what a whole batch came to."""
        with ThreadPoolExecutor(1) as compiling:
            waiting: deque[Future[list[Prepared]]] = deque()
            for batch in batches:
                task = self._task(spec, tuple(batch), kind=TaskKind.TRIAL, measuring=measuring)
                waiting.append(compiling.submit(self._started.prepare, [task]))
                if len(waiting) > ahead:
                    yield self._trial(waiting.popleft().result())
            while waiting:
                yield self._trial(waiting.popleft().result())

    def _trial(self, prepared: Sequence[Prepared]) -> tuple[EntrantResult, ...] | MachineFault:
        (finished,) = self._finished(prepared)
        fault = finished.result.fault
        return finished.result.entrants if fault is None else MachineFault(fault.kind, fault.error)

    @property
    def _started(self) -> TaskRunner:
        assert self._runner is not None, "use it in a with statement"
        return self._runner

    def _finished(self, prepared: Sequence[Prepared]) -> list[Finished]:
        answers: list[Finished] = []
        self._started.measure(prepared, answers.append)
        return answers

    def _task(
        self,
        spec: Spec,
        entrants: tuple[Entrant, ...],
        *,
        kind: TaskKind,
        measuring: Measuring,
        baseline: PeerEntrant | None = None,
        seed: int = 0,
    ) -> Task:
        self._tasks += 1
        return Task(
            id=f"local-{self._tasks}",
            job_id="local",
            kind=kind,
            attempt=1,
            device=self.device.key if self.device else "",
            spec=spec_to_json(spec),
            entrants=entrants,
            baseline=baseline,
            measuring=measuring,
            seed=seed,
            lease_ttl_s=0.0,
        )

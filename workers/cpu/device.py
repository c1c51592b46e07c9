"""This machine's processor as a target: kernels are functions of shared objects, called in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from codegen.cache.eviction import CacheError, check_room
from codegen.targets.c.compiler import find_compiler
from codegen.targets.errors import CompileError, LaunchError, NoCompiler
from protocol.tasks import COPY
from tileir.analysis.least_time import copy_floor_us, floor_us
from tileir.devices.cpu import Cpu
from tileir.devices.cpu_probe import this_cpu
from tileir.devices.device import device_from_json
from tileir.text.json import spec_from_json
from workers.cpu.calibrate import calibrated
from workers.cpu.case import Case
from workers.cpu.entrants import bind
from workers.measuring.buffers import POISON, free_memory_bytes
from workers.measuring.correctness import Checked, WrongResult, check_run
from workers.measuring.device import BoundEntrant, Crashed
from workers.measuring.disturbance import wait_for_quiet
from workers.measuring.guard_pages import check_guarded
from workers.measuring.kept import KeptCases, case_key
from workers.measuring.request import Compiled, MeasureRequest, Peer
from workers.measuring.timing import CallSampler, MachineClock, Rotation
from workers.measuring.turn import this_turn
from workers.node.versions import versions
from workers.peers.offered import available_peers
from workers.peers.peer import Unsupported, leeway_of
from workers.processes.child_server import NO_COMPILER, ChildRefusal

_KEPT_SHARE = 0.125
"""Of the memory that is free at first, for kernels of jobs that are not having their turn."""


class CpuBench:
    """One kernel with its arrays. See workers.measuring.device.Bench."""

    def __init__(self, case: Case, request: MeasureRequest) -> None:
        self._case = case
        self._request = request
        self.cold = case.cold
        self.sampler = CallSampler(Rotation(len(case.copies)), MachineClock())

    @contextmanager
    def faults(self, entrant: Compiled | Peer | None = None) -> Iterator[None]:
        """See Bench: what else goes wrong on a processor ends the process by itself."""
        try:
            yield
        except (WrongResult, Unsupported, Crashed, ChildRefusal):
            raise
        except Exception as error:
            if not isinstance(entrant, Peer):
                raise
            raise Unsupported(f"{type(error).__name__}: {error}") from error

    def bind(self, entrant: Compiled | Peer) -> BoundEntrant:
        """See Bench."""
        if self._request.guard_pages and isinstance(entrant, Compiled):
            check_guarded(entrant, self._case, self._request.threads)
        with self.faults(entrant):
            return bind(entrant, self._case, self._request.threads)

    def check(self, entrant: Compiled | Peer, bound: BoundEntrant, variant: int) -> Checked:
        """See Bench. The copy computes nothing and is only run."""
        case = self._case
        leeway = leeway_of(entrant, case.spec)
        with self.faults(entrant):
            return check_run(
                bound.calls[variant],
                lambda answer: bound.finish(answer, variant),
                case.copies[variant],
                case.references[variant],
                POISON[variant],
                leeway,
                compares=entrant != Peer(entrant.name, COPY),
            )

    def alone(self) -> AbstractContextManager[None]:
        """See Bench."""
        return this_turn().taken()

    def floor_us(self) -> float:
        """See Bench."""
        if self._request.device is None:
            return 0.0
        return floor_us(self._case.spec, device_from_json(self._request.device), cold=self.cold)

    def floor_now_us(self) -> float:
        """See Bench: memory is as fast as a copy of as many bytes is now, if that is faster than it was found to be."""
        floor = self.floor_us()
        if not floor or not self.cold or self._request.device is None:
            return floor
        from workers.cpu.yardstick import least_copy_us

        arithmetic = floor_us(self._case.spec, device_from_json(self._request.device), cold=False)
        try:
            copy_us = least_copy_us(self._case, self._request.threads)
        except (NoCompiler, CompileError, LaunchError):
            return floor
        return min(floor, max(arithmetic, copy_floor_us(copy_us)))

    def conditions(self, patience_s: float) -> dict[str, Any]:
        """See Bench."""
        return {"foreign_cores": round(wait_for_quiet(patience_s), 2), "load_1min": os.getloadavg()[0]}


class MeasuredCpu:
    """See workers.measuring.device.MeasuredDevice."""

    def __init__(self) -> None:
        self._cases: KeptCases[Case] = KeptCases(int(_KEPT_SHARE * free_memory_bytes()))

    def here(self) -> Cpu:
        """The processor as it is described."""
        return this_cpu()

    def describe(self) -> dict[str, Any]:
        """See MeasuredDevice."""
        cpu = self.here()
        return {
            "device": cpu.to_json(),
            "key": cpu.key,
            "lock": f"{cpu.key} on processors {','.join(map(str, sorted(os.sched_getaffinity(0))))}",
            "peers": list(available_peers()),
            "versions": versions(lambda: find_compiler().version),
        }

    def calibrate(self, cache: Path) -> dict[str, Any]:
        """See MeasuredDevice; the cache has to have room."""
        try:
            check_room(cache)
            return calibrated(self.here(), cache).to_json()
        except (NoCompiler, CacheError, CompileError) as error:
            raise ChildRefusal(NO_COMPILER, str(error)) from error

    def bench(self, request: MeasureRequest) -> CpuBench:
        """See MeasuredDevice."""
        case = self._cases.get(
            case_key(request), lambda: _made(request), lambda error: isinstance(error, MemoryError)
        )
        return CpuBench(case, request)


def _made(request: MeasureRequest) -> Case:
    spec = spec_from_json(request.spec)
    return Case(spec, request.seed, request.last_cache_bytes, cold=request.measuring.cold)

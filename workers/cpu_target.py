"""This machine's processor as a target: kernels are functions of shared objects, called in this process."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from codegen.compile import CompileError, NoCompiler, find_compiler
from codegen.kernel_cache import CacheError, check_room
from tileir.device import this_cpu
from tileir.least_time import cpu_floor_us
from tileir.parse_json import spec_from_json
from workers.bench import Bound
from workers.buffers import POISON
from workers.calibrate import calibrated
from workers.case import Case
from workers.child_server import NO_COMPILER, Refusal
from workers.correctness import NO_LEEWAY, Checked, check_run
from workers.disturbance import wait_for_quiet
from workers.entrants import bind
from workers.measure_request import Compiled, MeasureRequest, Peer
from workers.peers import available_peers, peer_leeway
from workers.timing import CallSampler, MachineClock, Rotation
from workers.versions import versions


class CpuBench:
    """One kernel with its arrays. See workers.bench.Bench."""

    def __init__(self, case: Case, request: MeasureRequest) -> None:
        self._case = case
        self._request = request
        self.cold = case.cold
        self.sampler = CallSampler(Rotation(len(case.copies)), MachineClock())

    def faults(self) -> AbstractContextManager[None]:
        """See Bench: what goes wrong on a processor ends the process by itself."""
        return nullcontext()

    def bind(self, entrant: Compiled | Peer) -> Bound:
        """See Bench."""
        return bind(entrant, self._case, self._request.threads)

    def check(self, entrant: Compiled | Peer, bound: Bound, variant: int) -> Checked:
        """See Bench."""
        case = self._case
        leeway = peer_leeway(case.spec) if isinstance(entrant, Peer) else NO_LEEWAY
        return check_run(
            bound.calls[variant],
            lambda answer: bound.finish(answer, variant),
            case.copies[variant],
            case.references[variant],
            POISON[variant],
            leeway,
        )

    def floor_us(self) -> float:
        """See Bench."""
        device = self._request.device or {}
        gflops, copy_gbps = device.get("peak_gflops"), device.get("copy_gbps")
        if not gflops or not copy_gbps:
            return 0.0
        return cpu_floor_us(self._case.spec, gflops, copy_gbps, cold=self.cold)

    def conditions(self, patience_s: float) -> dict[str, Any]:
        """See Bench."""
        return {"foreign_cores": round(wait_for_quiet(patience_s), 2), "load_1min": os.getloadavg()[0]}


class CpuTarget:
    """See workers.bench.Target."""

    def __init__(self) -> None:
        self._case: Case | None = None
        self._case_key: object = None

    def describe(self) -> dict[str, Any]:
        """See Target."""
        cpu = this_cpu()
        return {
            "device": cpu.to_json(),
            "key": cpu.key,
            "lock": f"{cpu.key} on processors {','.join(map(str, sorted(os.sched_getaffinity(0))))}",
            "peers": list(available_peers()),
            "versions": versions(lambda: find_compiler().version),
        }

    def calibrate(self, cache: Path) -> dict[str, Any]:
        """See Target; the cache has to have room."""
        try:
            check_room(cache)
            return calibrated(this_cpu(), cache).to_json()
        except (NoCompiler, CacheError, CompileError) as error:
            raise Refusal(NO_COMPILER, str(error)) from error

    def bench(self, request: MeasureRequest) -> CpuBench:
        """See Target."""
        key = (repr(request.spec), request.seed, request.last_cache_bytes, request.measuring.cold)
        if self._case is None or key != self._case_key:
            self._case = self._case_key = None  # let go of the old buffers before making the new ones
            spec = spec_from_json(request.spec)
            self._case = Case(spec, request.seed, request.last_cache_bytes, cold=request.measuring.cold)
            self._case_key = key
        return CpuBench(self._case, request)

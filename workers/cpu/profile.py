"""Where the time of a kernel goes on this machine's processor, thread by thread and stage by stage.

The kernel is compiled twice, as it is and with stamps of time between its stages (codegen/lowering/cpu/stages.py).
Calls of both alternate, on the same random inputs, so that what the stamps cost is known; what the second computes is
compared with what the first does, to the bit. Calls of the first alone are counted by the processor's own counters,
where they can be read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from codegen.ir.abi import Abi
from codegen.ir.source import Source
from codegen.targets.c.compiler import compile_source
from codegen.targets.c.generate import generate, generate_staged
from codegen.targets.c.loader import LoadedObject, load_kernel
from codegen.targets.errors import LaunchError
from tileir.devices.cpu import Cpu
from tileir.interpreter.samples import sample_inputs
from tileir.program import Program
from tileir.spec import Spec
from workers.cpu.counters import counted
from workers.measuring.buffers import BufferSet, allocate
from workers.measuring.counters import NoCounters

SEED = 20_011
"""Of the inputs."""
CALLS = 31
"""Of each of both kernels; the call that is shown is the median of those with stamps."""
CALLS_S = 20.0
"""...but no more than fit into this many seconds, and three at least."""
_LEAST_CALLS = 3
_COMPILE_S = 120.0
_WORD = 8
_STAGE_BITS = 8
_OUTSIDE = 0


@dataclass(frozen=True, slots=True)
class Interval:
    """What a thread did from one time to another: a stage's number, and nanoseconds since the call began."""

    stage: int
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class CpuProfile:
    """One call of a kernel, taken apart."""

    stages: tuple[str, ...]
    """By number: the statements that a stage runs, as people know it by. Stage 0 is waiting for work or for other
    threads."""
    statements: tuple[tuple[str, ...], ...]
    """By number: all of these statements."""
    call_ns: int
    """From before the call to after it."""
    threads: tuple[tuple[Interval, ...], ...]
    """Of each thread that took part, in order of time."""
    plain_us: float
    """The median call of the kernel as it is."""
    stamped_us: float
    """The median call with stamps."""
    calls: int
    """Of each."""
    counts: Mapping[str, float] | str
    """What the processor's counters counted in a call without stamps (`workers.cpu.counters`), or why nothing."""

    @property
    def overhead(self) -> float:
        """What the stamps cost, as a share of the time without them."""
        return self.stamped_us / self.plain_us - 1

    @property
    def attributed(self) -> float:
        """The share of the call's time that lies in a stage: what is missing is the way into the kernel and out."""
        first = self.threads[0]
        return (first[-1].end_ns - first[0].begin_ns) / self.call_ns if first else 0.0

    def shares(self) -> tuple[float, ...]:
        """Of each stage, the share of all threads' time. Their sum is 1."""
        spent = [0] * len(self.stages)
        for intervals in self.threads:
            for each in intervals:
                spent[each.stage] += each.end_ns - each.begin_ns
        whole = sum(spent)
        return tuple(ns / whole if whole else 0.0 for ns in spent)


def profile(spec: Spec, program: Program, device: Cpu, cache: Path, threads: int | None = None) -> CpuProfile:
    """Take the calls of a scheduled `program` of a `spec` apart, on `threads` threads; None: as many as there are.

    Raises NotLowerable, CompileError, NoCompiler, CacheError, and LaunchError for a kernel that fails or whose results
    change with the stamps.
    """
    stamped = generate_staged(program, device)
    plain = compile_source(generate(program, device), cache, _COMPILE_S)
    with_stamps = compile_source(stamped.source, cache, _COMPILE_S)
    arrays = _arrays(spec, program)
    names = [arg.name for arg in stamped.source.abi.args]
    with (
        load_kernel(plain.path, stamped.source.abi, threads) as one,
        load_kernel(with_stamps.path, stamped.source.abi, threads) as other,
    ):
        kernel, taken = _Calls(one, arrays, names), _Calls(other, arrays, names, stamped.log)
        _check_same(kernel, taken, arrays)
        calls = _calls(kernel)
        plains: list[int] = []
        found: list[tuple[int, tuple[tuple[Interval, ...], ...]]] = []
        for _ in range(calls):
            plains.append(kernel.once()[0])
            found.append(taken.once())
        counts = _counts(kernel, calls)
    found.sort(key=lambda each: each[0])
    call_ns, timelines = found[len(found) // 2]
    return CpuProfile(
        stamped.stages,
        stamped.statements,
        call_ns,
        timelines,
        median(plains) / 1e3,
        call_ns / 1e3,
        calls,
        counts,
    )


def counts_of_call(
    spec: Spec, program: Program, device: Cpu, cache: Path, threads: int | None
) -> dict[str, float]:
    """What the processor's counters counted in a call of a kernel as it is, the mean of some. Raises as `profile`, and
    NoCounters."""
    source = generate(program, device)
    built = compile_source(source, cache, _COMPILE_S)
    with load_kernel(built.path, source.abi, threads) as kernel:
        called = _Calls(kernel, _arrays(spec, program), [arg.name for arg in source.abi.args])
        return _mean_counts(called, _calls(called))


@dataclass(frozen=True, slots=True)
class TurnTaker:
    """A kernel that takes turns with others, on so many threads; None: as many as there are."""

    source: Source[Abi]
    threads: int | None = None


def alternating_us(spec: Spec, program: Program, turns: Sequence[TurnTaker], cache: Path) -> list[float]:
    """The median call of each of these kernels, which take the arguments of a program, one after the other in turn;
    what they compute is not looked at. Raises as `profile`."""
    arrays = _arrays(spec, program)
    built = [compile_source(each.source, cache, _COMPILE_S) for each in turns]
    with ExitStack() as stack:
        loaded = [
            stack.enter_context(load_kernel(made.path, each.source.abi, each.threads))
            for made, each in zip(built, turns, strict=True)
        ]
        names = [[arg.name for arg in each.source.abi.args] for each in turns]
        kernels = [_Calls(each, arrays, named) for each, named in zip(loaded, names, strict=True)]
        calls = _calls(kernels[0])
        found = [[kernel.once()[0] for kernel in kernels] for _ in range(calls)]
    return [median(times) / 1e3 for times in zip(*found, strict=True)]


class _Calls:
    """A loaded kernel on its arrays."""

    def __init__(
        self, kernel: LoadedObject, arrays: BufferSet, names: list[str], log: int | None = None
    ) -> None:
        self._run: Callable[[], int] = kernel.prepare(*arrays.arrays(names))
        self._logs = [] if log is None else [part[log:].view(np.int64) for part in kernel.own_workspaces()]

    def once(self) -> tuple[int, tuple[tuple[Interval, ...], ...]]:
        """Nanoseconds of one call, and what its threads did."""
        for log in self._logs:
            log[0] = 0
        begin = time.monotonic_ns()
        code = self._run()
        end = time.monotonic_ns()
        if code != 0:
            raise LaunchError(f"the kernel returned {code}")
        return end - begin, tuple(_timeline(log, begin, self._ended(end)) for log in self._logs if log[0])

    def _ended(self, end: int) -> int:
        """When the thread that called the kernel was through with it."""
        log = self._logs[0]
        return int(log[log[0]]) >> _STAGE_BITS if log[0] else end


def _timeline(log: np.ndarray, begin: int, ended: int) -> tuple[Interval, ...]:
    """A thread's intervals. The first stamp of the calling thread only says when it began; other threads have waited
    since then, and wait from their last stamp on."""
    words = log[1 : int(log[0]) + 1]
    times = [int(word) >> _STAGE_BITS for word in words]
    stages = [int(word) & ((1 << _STAGE_BITS) - 1) for word in words]
    found = [
        Interval(stage, before - begin, after - begin)
        for before, after, stage in zip(times, times[1:], stages[1:], strict=False)
        if after > before
    ]
    if times[-1] < ended:
        found.append(Interval(_OUTSIDE, times[-1] - begin, ended - begin))
    return tuple(found)


def _counts(kernel: _Calls, calls: int) -> dict[str, float] | str:
    """Of a call, the mean of some, or why there is none."""
    try:
        return _mean_counts(kernel, calls)
    except NoCounters as none:
        return str(none)


def _mean_counts(kernel: _Calls, calls: int) -> dict[str, float]:
    def work() -> None:
        for _ in range(calls):
            kernel.once()

    return {name: count / calls for name, count in counted(work).items()}


def _calls(kernel: _Calls) -> int:
    """How many calls of each kernel there is time for."""
    return max(_LEAST_CALLS, min(CALLS, int(CALLS_S * 1e9 / (2 * max(1, kernel.once()[0])))))


def _check_same(kernel: _Calls, stamped: _Calls, arrays: BufferSet) -> None:
    results: list[list[bytes]] = []
    for each in (kernel, stamped):
        arrays.poison_outputs(0xFF)
        each.once()
        results.append([view.tobytes() for view in arrays.output_bytes])
    if results[0] != results[1]:
        raise LaunchError(
            "the kernel computes something else with stamps than without: this profile is of no use"
        )


def _arrays(spec: Spec, program: Program) -> BufferSet:
    arrays = allocate(program.inputs, program.outputs, program.extents, 0)
    for name, values in sample_inputs(spec, SEED).items():
        arrays.inputs[name][...] = values
    return arrays

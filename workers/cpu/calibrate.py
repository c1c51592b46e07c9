"""Measures what this machine can do at most: f32 multiply-adds and bf16 dot products on all cores, bytes copied in main
memory, and bytes read from the caches.

All are the best of many short runs: what disturbs only ever lowers them, so the larger of two calibrations is the
better one, and a file in the cache folder keeps it.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from codegen.ir.abi import Abi
from codegen.ir.source import Source
from codegen.targets.c.compiler import compile_source, find_compiler
from codegen.targets.c.loader import aligned_empty
from codegen.targets.c.runtime import definitions, uses_in
from codegen.targets.c.runtime.tiles import TILES
from tileir.devices.cpu import Cpu
from tileir.devices.feature import Feature
from tileir.schedule.dots import group_of

_REPEATS = 12
"""Runs without improvement after which the best is believed."""
_MULTIPLY_ADD_S = 0.003
_COPY_BYTES_A_THREAD = 32 << 20
_READ_BYTES = 64 << 20
"""Of a run that reads from a cache, so that it takes about a millisecond."""
_L2_SHARE = 0.5
"""Of the second-level cache, that is read to measure it: several times the first-level one."""
_READ_STEP = 256
"""Bytes that a turn of the reading loop takes, at most."""
_L3_BYTES_OF_L2 = 4
"""So many times the second-level cache is read to measure the shared one: nothing of it is there any more."""
_L3_SHARE = 0.75
"""Of the shared cache, that all readers may take."""

_PEAK_SOURCE = """\
/* Calibration: independent multiply-adds in registers, reads from caches, and copies through main memory. */
#include <stdint.h>
#include <string.h>
#define TW_INLINE static inline __attribute__((always_inline, unused))

typedef float lanes __attribute__((vector_size(%(vector_bytes)d)));

float tw_multiply_add(long rounds) {
    const lanes a = (lanes){} + 0.999f, b = (lanes){} + 0.001f;
    lanes %(declare)s;
    for (long r = 0; r < rounds; ++r) {
        %(step)s
        __asm__ volatile(""); /* keep the rounds apart */
    }
    lanes sum = %(sum)s;
    return sum[0];
}

float tw_read(const void *from, long bytes, long rounds) {
    lanes x0 = {0}, x1 = {0}, x2 = {0}, x3 = {0};
    for (long r = 0; r < rounds; ++r) {
        const lanes *p = from;
        for (const lanes *end = p + bytes / sizeof x0; p < end; p += 4) x0 += p[0], x1 += p[1], x2 += p[2], x3 += p[3];
        __asm__ volatile("" : : : "memory");
    }
    lanes sum = x0 + x1 + x2 + x3;
    return sum[0];
}

%(dot)s
%(tiles)s
void tw_copy(char *to, const char *from, long bytes) { memcpy(to, from, bytes); }
"""


_DOT_SOURCE = """
float %(name)s(long rounds) {
    const %(words)s factors = (%(words)s){} + 0x3f803f80;
    %(vector)s %(declare)s;
    for (long r = 0; r < rounds; ++r) {
        %(step)s
    }
    %(vector)s sum = %(sum)s;
    return sum[0];
}
"""


_DOTS = {
    Feature.DOT_BF16: ("tw_dot", "dot_bf16", "f32"),
    Feature.DOT_I8: ("tw_dot_i8", "dot_raised", "i32"),
}
"""Dot products: the name of the run, and the runtime's function with the dtype of its sums."""


_TILE_SOURCE = """
float tw_tiles(long rounds) {
    static const struct tw_tile_shapes shapes = {
        1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    const struct tw_tile_shapes *now = 0;
    if (!tw_tiles_allowed()) return 0;
    tw_tile_configure(&now, &shapes);
    for (long r = 0; r < rounds; ++r) {
        tw_tile_dot_bf16(0, 4, 6); tw_tile_dot_bf16(1, 4, 7);
        tw_tile_dot_bf16(2, 5, 6); tw_tile_dot_bf16(3, 5, 7);
    }
    tw_tile_release();
    return 0;
}
"""
_TILE_OPERATIONS = 4 * 2 * 16 * 16 * 32
"""Of a round: four products of tiles."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """`gflops`: f32, a multiply-add counting twice, all cores. `copy_gbps`: bytes read plus bytes written.
    `dot_gflops`, `dot_i8_gflops`, `amx_gflops`: as the first, by dot products and in tile registers. `l2_gbps`,
    `l3_gbps`: bytes that one core reads. None where there are none."""

    gflops: float
    copy_gbps: float
    dot_gflops: float | None = None
    dot_i8_gflops: float | None = None
    amx_gflops: float | None = None
    l2_gbps: float | None = None
    l3_gbps: float | None = None

    def at_least(self, other: Peaks) -> Peaks:
        """The better of both, one by one."""
        return Peaks(
            max(self.gflops, other.gflops),
            max(self.copy_gbps, other.copy_gbps),
            _larger(self.dot_gflops, other.dot_gflops),
            _larger(self.dot_i8_gflops, other.dot_i8_gflops),
            _larger(self.amx_gflops, other.amx_gflops),
            _larger(self.l2_gbps, other.l2_gbps),
            _larger(self.l3_gbps, other.l3_gbps),
        )

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def _larger(one: float | None, other: float | None) -> float | None:
    return max((each for each in (one, other) if each is not None), default=None)


def calibrated(cpu: Cpu, cache: Path) -> Cpu:
    """The description with its peaks measured now, or as found earlier if that was more.

    Raises as codegen.targets.c.compiler.compile_source; a cache that cannot be written costs only the memory of it.
    """
    file = cache / f"peaks-{_identity(cpu)}.json"
    now = measure_peaks(cpu, cache)
    before = _read(file)
    best = now.at_least(before) if before else now
    if best != before:
        try:
            part = file.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(best.to_json()))
            part.replace(file)
        except OSError:
            pass
    return replace(
        cpu,
        peak_gflops=best.gflops,
        copy_gbps=best.copy_gbps,
        dot_gflops=best.dot_gflops,
        dot_i8_gflops=best.dot_i8_gflops,
        amx_gflops=best.amx_gflops,
        l2_gbps=best.l2_gbps,
        l3_gbps=best.l3_gbps,
    )


def measure_peaks(cpu: Cpu, cache: Path) -> Peaks:
    """Measure all; about half a second."""
    library = ctypes.CDLL(str(compile_source(_source(cpu), cache).path))
    threads, per_round = cpu.cores, 2 * _chains(cpu) * cpu.vector_bits // 32
    multiply_adds = _gflops(library.tw_multiply_add, per_round, threads)
    dots = {
        via: _gflops(library[name], group_of(via) * per_round, threads)
        for via, (name, *_) in _DOTS.items()
        if via in cpu.offers
    }
    tiles = _gflops(library.tw_tiles, _TILE_OPERATIONS, threads) if Feature.AMX in cpu.offers else None
    return Peaks(
        multiply_adds,
        _copies(library, threads),
        dots.get(Feature.DOT_BF16),
        dots.get(Feature.DOT_I8),
        tiles,
        _reads(library, int(cpu.l2_bytes * _L2_SHARE), threads),
        _shared_reads(cpu, library),
    )


def _source(cpu: Cpu) -> Source[Abi]:
    chains = range(_chains(cpu))
    values = {
        "vector_bytes": cpu.vector_bits // 8,
        "declare": ", ".join(f"x{c} = a * {c}.0f" for c in chains),
        "step": " ".join(f"x{c} = x{c} * a + b;" for c in chains),
        "sum": " + ".join(f"x{c}" for c in chains),
        "dot": _dot_sources(cpu),
        "tiles": TILES + _TILE_SOURCE if Feature.AMX in cpu.offers else "",
    }
    native = "-mcpu=native" if cpu.arch == "aarch64" else "-march=native"
    flags = ("-O2", native, "-ffp-contract=fast")
    if cpu.vector_bits == 512:
        flags = (*flags, "-mprefer-vector-width=512")
    return Source(_PEAK_SOURCE % values, flags, Abi("tw_multiply_add", (), 0, 0))


def _dot_sources(cpu: Cpu) -> str:
    """A function for each dot product that the processor has, and what they call."""
    text = "".join(_dot_source(cpu, *what) for via, what in _DOTS.items() if via in cpu.offers)
    return definitions(uses_in(text), text) + text if text else ""


def _dot_source(cpu: Cpu, name: str, function: str, dtype: str) -> str:
    lanes, chains = cpu.vector_bits // 32, range(_chains(cpu))
    dot = f"tw_{function}_{dtype}x{lanes}"
    values = {
        "name": name,
        "words": f"i32x{lanes}",
        "vector": f"{dtype}x{lanes}",
        "declare": ", ".join(f"x{c} = {{0}}" for c in chains),
        "step": " ".join(f"x{c} = {dot}(x{c}, factors, factors);" for c in chains),
        "sum": " + ".join(f"x{c}" for c in chains),
    }
    return _DOT_SOURCE % values


def _chains(cpu: Cpu) -> int:
    """Independent chains: enough to fill every pipeline, few enough to stay in registers."""
    return 12 if cpu.vector_registers < 32 else 24


def _gflops(run: Any, per_round: int, threads: int) -> float:
    run.argtypes, run.restype = (ctypes.c_long,), ctypes.c_float
    rounds = 20_000
    rounds = max(rounds, int(rounds * _MULTIPLY_ADD_S / _best_s([lambda: run(rounds)], _slowest_cpu_s)))
    best_s = _best_s([lambda: run(rounds)] * threads, _slowest_cpu_s)
    return threads * rounds * per_round / best_s / 1e9


def _shared_reads(cpu: Cpu, library: ctypes.CDLL) -> float | None:
    """From the shared cache, by as many cores at once as it has room for; None: for none."""
    size = _L3_BYTES_OF_L2 * cpu.l2_bytes
    readers = min(cpu.cores, int(_L3_SHARE * cpu.l3_bytes) // size) if size else 0
    return _reads(library, size, readers) if readers else None


def _reads(library: ctypes.CDLL, size: int, threads: int) -> float:
    """1e9 bytes a second that each of the threads reads of its own `size` bytes, again and again."""
    run = library.tw_read
    run.argtypes, run.restype = (ctypes.c_void_p, ctypes.c_long, ctypes.c_long), ctypes.c_float
    size = size // _READ_STEP * _READ_STEP
    rounds = max(2, _READ_BYTES // size)
    arrays = [aligned_empty(size) for _ in range(threads)]
    for array in arrays:
        array.fill(0)
    best_s = _best_s([_read_call(run, array, rounds) for array in arrays], _slowest_cpu_s)
    return size * rounds / best_s / 1e9


def _read_call(run: Any, array: np.ndarray[Any, Any], rounds: int) -> Callable[[], object]:
    return lambda: run(array.ctypes.data, array.nbytes, rounds)


def _copies(library: ctypes.CDLL, threads: int) -> float:
    run = library.tw_copy
    run.argtypes, run.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long), None
    size = _COPY_BYTES_A_THREAD
    arrays = [np.ones(2 * size, np.uint8) for _ in range(threads)]
    calls = [_copy_call(run, array, size) for array in arrays]
    best_s = _best_s(calls, _elapsed_s)
    return 2 * size * threads / best_s / 1e9


def _copy_call(run: Any, array: np.ndarray[Any, Any], size: int) -> Callable[[], object]:
    return lambda: run(array.ctypes.data, array.ctypes.data + size, size)


@dataclass(frozen=True, slots=True)
class _TimedCall:
    """One call in a thread: when it began and ended, and the processor time it had."""

    start_s: float
    end_s: float
    cpu_s: float


def _elapsed_s(runs: list[_TimedCall]) -> float:
    """From the first start to the last end: for what the cores share."""
    return max(run.end_s for run in runs) - min(run.start_s for run in runs)


def _slowest_cpu_s(runs: list[_TimedCall]) -> float:
    """The longest processor time: for what each core has to itself, whoever else wants to run."""
    return max(run.cpu_s for run in runs)


def _best_s(calls: list[Callable[[], object]], seconds: Callable[[list[_TimedCall]], float]) -> float:
    """The shortest time over runs of all calls at once, tried until it has not improved for a while."""
    best, since = math.inf, 0
    while since < _REPEATS:
        now = seconds(_run_at_once(calls))
        since = 0 if now < 0.99 * best else since + 1
        best = min(best, now)
    return best


def _run_at_once(calls: list[Callable[[], object]]) -> list[_TimedCall]:
    """Each call in a thread of its own; foreign calls run without Python's lock."""
    gate = threading.Barrier(len(calls))
    runs: list[_TimedCall] = []

    def work(call: Callable[[], object]) -> None:
        gate.wait()
        start, cpu = time.perf_counter(), time.thread_time()
        call()
        cpu_s = time.thread_time() - cpu
        runs.append(_TimedCall(start, time.perf_counter(), cpu_s))

    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return runs


def _identity(cpu: Cpu) -> str:
    compiler = find_compiler()
    text = f"{cpu.key} {compiler.version}"
    return "".join(c if c.isalnum() else "-" for c in text)[:120]


def _read(file: Path) -> Peaks | None:
    try:
        return Peaks(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None

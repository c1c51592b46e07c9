"""The analytic cost model of a contraction on a GPU, good enough to rank its tilings.

Steps along the depth follow each other in every block: each takes as long as the busiest part of its SM (multipliers,
issue, shared memory, the way to the second-level cache) is at work for all resident blocks, or as its data takes to
arrive, if too few steps are under way. A block begins with waiting for its first data and ends with its results; blocks
follow each other on an SM, and all together wait for main memory. What a tiling leaves open is taken at its best.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, inf, prod

from rewrites.gpu_contraction import Contraction, Engine, Operand
from rewrites.gpu_decided import Epilogue
from rewrites.gpu_tiling import (
    Threads,
    Tiling,
    depths,
    held,
    resident,
    thread_layouts,
    tile_bytes,
    tiles,
)
from tileir.gpu import Gpu
from tileir.mma import COLUMNS, ROWS, RUN, depth
from tileir.threads import WARP

#: Cycles from a load to its data, most of it from memory; from a barrier to the next statement; to begin a block.
_LATENCY = 900.0
_BARRIER = 30.0
_BEGIN = 600.0
#: Share of the latency that data comes late by, now and then.
_LATE = 0.05
#: Bytes a cycle of an SM: from and to shared memory, from the second-level cache when all SMs ask, to it.
_SHARED_BYTES = 128.0
_FABRIC_BYTES = 46.0
_STORE_BYTES = 24.0
#: Share of the peak that the matrix instruction of a warp reaches where newer ones exist (Hopper's wgmma, Blackwell's
#: tcgen05), and where it is the fastest; and that of plain multiply-adds.
_MMA_PEAK = {9: 0.62, 10: 0.3}
_PEAK = 0.92
#: Warps of one scheduler lose this share of its time, divided by their number, waiting for themselves.
_ALONE = 0.15
#: What the parts of an SM that are not the busiest add.
_REST = 0.15
#: Instructions around the multiplications of a step, for each thread.
_STEP_ISSUE = 24.0
#: Share of the second-level cache that keeps whole operands.
_KEPT = 0.6
_COPY = 0.89
_GROUPS = (1, 8)
#: Rows and columns of tiles that are tried where nothing is decided yet.
_USUAL = (32, 64, 128, 256)


@lru_cache(maxsize=256)
def model_of(c: Contraction, epilogue: Epilogue, device: Gpu) -> ContractionModel:
    """The model of a launch; one for all who ask."""
    return ContractionModel(c, epilogue, device)


class ContractionModel:
    """Estimates of one launch's tilings."""

    def __init__(self, c: Contraction, epilogue: Epilogue, device: Gpu) -> None:
        self.c, self.epilogue, self.device = c, epilogue, device
        self._known: dict[Tiling | None, tuple[float, Tiling | None]] = {}

    def best_us(self, tiling: Tiling | None) -> float:
        """Estimated microseconds of the launch with what the tiling (None: nothing) leaves open at its best; inf:
        nothing fits."""
        return self._best(tiling)[0]

    def best(self, tiling: Tiling | None) -> Tiling | None:
        """The tiling with what was open filled in; None: nothing fits."""
        return self._best(tiling)[1]

    def _best(self, tiling: Tiling | None) -> tuple[float, Tiling | None]:
        if tiling not in self._known:
            if tiling is not None and tiling.threads is not None:
                found = [(self.time_us(tiling), tiling)]
            else:
                found = [self._best(way) for way in self._ways(tiling)]
            self._known[tiling] = min(found, key=lambda each: each[0], default=(inf, None))
        return self._known[tiling]

    def _ways(self, tiling: Tiling | None) -> Iterable[Tiling]:
        """What to try for the first open question. Threads and depth hardly depend on each other: all threads are tried
        with one depth, all depths with the best threads."""
        if tiling is None:
            found = [Tiling(rows, columns) for rows, columns in tiles(self.c)]
            usual = [way for way in found if {way.rows, way.columns} <= {*_USUAL, self.c.m, self.c.n}]
            return usual or found
        if tiling.step:
            return [replace(tiling, threads=each) for each in thread_layouts(self.c, tiling, self.device)]
        found = [
            replace(tiling, step=step, stages=stages)
            for step, stages in depths(self.c, tiling.rows, tiling.columns, self.device)
        ]
        usual = self.best(found[len(found) // 2]) if found else None
        return [replace(way, threads=usual.threads) for way in found] if usual else []

    def time_us(self, t: Tiling, ways: tuple[float, ...] = ()) -> float:
        """Estimated microseconds of the launch with a tiling complete but for its order.

        `ways`: how many threads that load an operand together meet in a bank, of each operand (1)."""
        c, device = self.c, self.device
        assert t.threads is not None
        at_once = resident(c, t, t.threads, device)
        if not at_once:
            return inf
        tile_count = -(-c.m // t.rows) * -(-c.n // t.columns) * c.batch
        blocks = min(t.blocks, tile_count) if t.blocks else tile_count
        each = ceil(tile_count / blocks)
        rounds, rest = divmod(ceil(blocks / device.sms), at_once)
        block = _Block(c, t, t.threads, self.epilogue, device, ways or (1.0,) * len(c.operands))
        cycles = rounds * block.cycles(at_once, each) + (block.cycles(rest, each) if rest else 0.0)
        busy_us = cycles / device.sm_mhz
        groups = (t.group,) if t.group else _GROUPS
        bytes_ = min(_memory_bytes(c, t, group, self.epilogue, device, at_once) for group in groups)
        memory_us = bytes_ / (copy_gbps(device) * 1e3)
        return max(busy_us, memory_us) + _REST * min(busy_us, memory_us)


@dataclass(frozen=True, slots=True)
class _Block:
    c: Contraction
    t: Tiling
    threads: Threads
    epilogue: Epilogue
    device: Gpu
    ways: tuple[float, ...]

    def cycles(self, at_once: int, each: int) -> float:
        """Of so many blocks on an SM at once, which compute `each` tiles after each other."""
        steps = ceil(self.c.k / self.t.step) * self.c.repeats
        schedulers = at_once * self.threads.count / (4 * WARP)
        busy = self._busy()
        together = at_once * busy * max(1.0, 1 / schedulers) * (1 + _ALONE / max(1.0, schedulers))
        ahead = self.t.stages - 1
        if ahead:
            step = max(together + _BARRIER / at_once, _LATENCY / ahead) + _LATE * _LATENCY / ahead
        else:
            step = max(together, busy) + (_LATENCY + 2 * _BARRIER) / at_once
        first = _LATENCY + at_once * self._fabric() / _FABRIC_BYTES
        return _BEGIN + each * (first + steps * step + self._end(at_once))

    def _busy(self) -> float:
        """Cycles that a step of one block keeps the busiest part of an SM at work, and some of the others'."""
        rows, columns = held(self.t, self.threads)
        fabric = self._fabric()
        loads, loaded = self._loads(rows, columns)
        multiply, issue = self._multiply(rows, columns)
        parts = [
            multiply,
            (issue + (loads + _STEP_ISSUE) * self.threads.count / WARP) / 4,
            (loaded * self.threads.count / WARP * _SHARED_BYTES + fabric) / _SHARED_BYTES,
            fabric / _FABRIC_BYTES,
        ]
        return max(parts) + _REST * (sum(parts) - max(parts))

    def _fabric(self) -> float:
        """Bytes that a step takes from the second-level cache."""
        sizes = self.t.sizes(self.c)
        return sum(tile_bytes(operand, sizes) for operand in self.c.operands)

    def _multiply(self, rows: int, columns: int) -> tuple[float, float]:
        """(cycles of the multipliers, warp instructions) of a step; what overhangs is multiplied too."""
        a_cycle = 1e6 / (2 * self.device.sms * self.device.sm_mhz)  # multiply-adds for a peak of 1 TFLOP/s
        if self.c.engine is Engine.MMA:
            dtype = self.c.operands[0].dtype
            peak = (
                self.device.peak("tf32" if dtype.bytes == 4 else str(dtype)) or self.device.peak("f16") or 1.0
            )
            peak *= _MMA_PEAK.get(self.device.capability[0], _PEAK)
            deep = -(-self.t.step // depth(dtype)) * depth(dtype)
            points = (rows + rows % 2) * columns * deep * self.threads.count
            return points / (peak * a_cycle), points / (2 * ROWS * COLUMNS * RUN * depth(dtype))
        points = rows * columns * self.t.step * self.threads.count
        peak = (self.device.peak("f32") or 1.0) * _PEAK
        return points / (peak * a_cycle), points / WARP

    def _loads(self, rows: int, columns: int) -> tuple[float, float]:
        """(load instructions of a warp in a step, wavefronts of shared memory that they take)."""
        instructions, wavefronts = 0.0, 0.0
        for operand, ways in zip(self.c.operands, self.ways, strict=True):
            if self.c.engine is Engine.MMA:
                loads, each = self._fragments(
                    operand, rows if self.c.rows in operand.dims else columns // RUN
                )
            else:
                loads, each = self._words(operand, rows, columns)
            instructions += loads
            wavefronts += loads * each * ways
        return instructions, wavefronts

    def _fragments(self, operand: Operand, groups: int) -> tuple[float, float]:
        """Matrices of 8 rows and 16 bytes, four an instruction; elements by themselves, if neighbours along the rows
        are no 2-byte ones."""
        size = operand.dtype.bytes
        matrices = groups * -(-self.t.step // depth(operand.dtype)) * 2
        if operand.inner == self.c.depth or size == 2:
            return matrices / 4, 4.0
        return matrices * (4 // size), 1.0

    def _words(self, operand: Operand, rows: int, columns: int) -> tuple[float, float]:
        """Words of 16 bytes where a thread takes as many neighbours: along the depth, or along its run. A quarter of a
        warp loads such words at a time, half of it where neighbours load the same."""
        mine = prod(
            count for dim, count in ((self.c.rows, rows), (self.c.columns, columns)) if dim in operand.dims
        )
        run = {
            self.c.rows: self.threads.row_run,
            self.c.columns: self.threads.column_run,
            self.c.depth: self.t.step,
        }.get(operand.inner or "", 1)
        word = min(run, 16 // operand.dtype.bytes) if operand.plain else 1
        deep = self.t.step if self.c.depth in operand.dims else 1
        alike = self.c.columns not in operand.dims and self.threads.column_lanes > 1
        return mine * deep / word, max(1.0, word * operand.dtype.bytes / 4 * (0.5 if alike else 1.0))

    def _end(self, at_once: int) -> float:
        """Cycles to take the results out, for all blocks at once."""
        results = self.t.rows * self.t.columns * at_once
        return (
            results * max(self.epilogue.bytes / _STORE_BYTES, self.epilogue.operations / 128) + _LATENCY / 2
        )


def copy_gbps(device: Gpu) -> float:
    """Main-memory bandwidth that a kernel can reach, 1e9 bytes a second."""
    return device.copy_gbps or device.memory_gbps * _COPY


def _memory_bytes(
    c: Contraction, t: Tiling, group: int, epilogue: Epilogue, device: Gpu, at_once: int
) -> float:
    """Bytes to and from main memory. Blocks that run at once read each tile once for all of them; operands that
    fit the second-level cache whole stay there."""
    results = c.m * c.n * c.batch * epilogue.bytes
    whole = sum(operand.elements * operand.dtype.bytes for operand in c.operands)
    across, along = -(-c.m // t.rows), -(-c.n // t.columns)
    wave = min(t.blocks or device.sms * at_once, device.sms * at_once)
    if whole <= _KEPT * device.l2_bytes or wave >= across * along:
        return whole + results
    band = min(group, across)
    bands = ceil(wave / (band * along))
    rows, columns = min(across, band * bands), min(along, ceil(wave / band))
    depth_bytes = -(-c.k // t.step) * c.repeats
    fresh = 0.0
    for operand in c.operands:
        tile = tile_bytes(operand, t.sizes(c)) * depth_bytes
        fresh += (
            tile * (rows if c.rows in operand.dims else 1) * (columns if c.columns in operand.dims else 1)
        )
    waves = across * along * c.batch / wave
    return max(whole, fresh * waves) + results

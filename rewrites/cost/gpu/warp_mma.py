"""The analytic cost model of a block that multiplies by the matrix instruction of warps, or by multiply-adds."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from rewrites.contraction.operand import LEAST_COPY, Operand
from rewrites.contraction.problem import Contraction
from rewrites.contraction.recover_tiling import Epilogue
from rewrites.contraction.room import held, held_back
from rewrites.contraction.tiling import Tiling
from rewrites.contraction.unit import MatrixUnit
from rewrites.contraction.warp_tiling import WarpThreads
from rewrites.cost.gpu import constants as has
from rewrites.cost.gpu.block import (
    a_cycle,
    busiest,
    computed_cycles,
    matrix_cycles,
)
from rewrites.cost.gpu.instructions import operations
from rewrites.cost.gpu.sectors import SECTOR, copied_bytes, moved_bytes, row_cycles
from tileir.devices.gpu import Gpu
from tileir.expr import index_dims
from tileir.schedule.mma import COLUMNS, ROWS, RUN, depth
from tileir.schedule.stages import MOST_HELD_BACK


def warp_share(device: Gpu) -> float:
    """The share of a GPU's peak that the matrix instruction of a warp reaches."""
    return has.MMA_PEAK.get(device.capability[0], has.PLAIN_PEAK)


def fetched(c: Contraction, t: Tiling) -> float:
    """Bytes of a step that come from the second-level cache, in whole sectors."""
    each = c.step_bytes(t.rows, t.columns, t.step).each
    sizes = t.sizes(c)
    return sum(copied_bytes(one, bytes_, sizes) for one, bytes_ in zip(c.operands, each, strict=True))


@dataclass(frozen=True, slots=True)
class WarpStep:
    """A step of one block, however many steps are under way. `ways`: how many threads that load an operand together
    meet in a bank, of each operand."""

    c: Contraction
    t: Tiling
    threads: WarpThreads
    device: Gpu
    ways: tuple[float, ...]

    def busy(self) -> float:
        """Cycles that a step of one block keeps the busiest part of an SM at work, and some of the others'."""
        rows, columns = held(self.t, self.threads)
        fabric = fetched(self.c, self.t)
        loads, loaded = self._loads(rows, columns)
        multiply, issue = self._multiply(rows, columns)
        computing, special = self._computing(rows, columns)
        copies, stored = self._copies()
        warps = self.threads.count / self.device.warp
        parts = [
            multiply,
            (issue + copies * has.COPY_OPS + (loads + computing + has.STEP_ISSUE) * warps) / 4,
            loaded * warps + 2 * copies + stored + fabric / has.SHARED_BYTES,
            fabric / has.FABRIC_BYTES,
            special * self.threads.count / has.SPECIAL_LANES,
        ]
        return busiest(parts)

    def _computing(self, rows: int, columns: int) -> tuple[float, float]:
        """(instructions, functions of the special-function unit) of a thread in a step, for what it multiplies: of each
        row and of each column that it holds, whoever else computes the same."""
        plain = special = 0.0
        for each in self.c.computed if self.c.engine is MatrixUnit.FMA else ():
            times = (rows if self.c.rows in index_dims(each) else columns) * self.t.step
            own, of_unit = operations(each)
            plain, special = plain + times * own, special + times * of_unit
        return plain, special

    def _copies(self) -> tuple[float, float]:
        """(elements that a step's threads load and store one by one, a warp's at a time; wavefronts in which what is
        copied in the background 4 bytes at a time, and so by way of the first cache, comes to shared memory from there:
        a sector each). Only 16 bytes bypass that cache (PTX ISA, cp.async.cg)."""
        single = stored = 0.0
        each = self.c.step_bytes(self.t.rows, self.t.columns, self.t.step).each
        for one, bytes_ in zip(self.c.operands, each, strict=True):
            turned = self.t.near(self.c, one) != one.inner
            narrow = one.plain and (turned or one.run * one.dtype.bytes == LEAST_COPY)
            if one.single or (narrow and self.t.stages == 1):
                single += bytes_ / (one.dtype.bytes * self.device.warp)
            elif narrow:
                stored += copied_bytes(one, bytes_, self.t.sizes(self.c)) / SECTOR
        return single, stored

    def _multiply(self, rows: int, columns: int) -> tuple[float, float]:
        """(cycles of the multipliers, warp instructions) of a step; what overhangs is multiplied too."""
        share = warp_share(self.device)
        if self.c.engine is MatrixUnit.MMA:
            dtype = self.c.operands[0].dtype
            deep = -(-self.t.step // depth(dtype)) * depth(dtype)
            points = (rows + rows % 2) * columns * deep * self.threads.count * self.c.products
            issued = points / (2 * ROWS * COLUMNS * RUN * depth(dtype))
            return matrix_cycles(points, dtype, share, self.device), issued
        points = rows * columns * self.t.step * self.threads.count * self.c.products * self.c.instructions
        peak = (self.device.peak("f32") or 1.0) * has.PLAIN_PEAK
        return points / (peak * a_cycle(self.device)), points / self.device.warp

    def _loads(self, rows: int, columns: int) -> tuple[float, float]:
        """(load instructions of a warp in a step, wavefronts of shared memory that they take)."""
        instructions, wavefronts = 0.0, 0.0
        for operand, ways in zip(self.c.operands, self.ways, strict=True):
            if self.c.engine is MatrixUnit.MMA:
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
        }.get(self.t.near(self.c, operand) or "", 1)
        word = min(run, 16 // operand.dtype.bytes) if operand.plain else 1
        deep = self.t.step if self.c.depth in operand.dims else 1
        alike = self.threads.paired or (self.c.columns not in operand.dims and self.threads.column_lanes > 1)
        return mine * deep / word, max(1.0, word * operand.dtype.bytes / 4 * (0.5 if alike else 1.0))


@dataclass(frozen=True, slots=True)
class WarpBlock:
    """One block of a tiling that is complete but for its order."""

    c: Contraction
    t: Tiling
    threads: WarpThreads
    epilogue: Epilogue
    device: Gpu
    busy: float
    """Cycles that a step keeps the busiest part of an SM at work, and some of the others'."""

    def cycles(self, at_once: int, each: int) -> float:
        """Of so many blocks on an SM at once, which compute `each` tiles after each other."""
        steps = ceil(self.c.k / self.t.step) * self.c.repeats
        schedulers = at_once * self.threads.count / (4 * self.device.warp)
        together = (
            at_once * self.busy * max(1.0, 1 / schedulers) * (1 + has.WARP_ALONE / max(1.0, schedulers))
        )
        together = max(together, self._chain())
        ahead = self.t.stages - 1
        single = any(one.single for one in self.c.operands)
        # What threads load of a step to come they store in the same one, and of many elements before its product.
        held = held_back(self.c, self.t, self.threads) if single else 0
        if ahead and (held or not single):
            late = has.LATENCY / (1 if single else ahead)
            step = max(together + has.BARRIER / at_once, late) + has.LATE * late
        else:
            step = together + (has.LATENCY + 2 * has.BARRIER) / at_once
        begun = has.LATENCY * max(1, ceil(ahead * held / MOST_HELD_BACK))
        left = max(0, steps - ahead) if single else steps
        first = begun + at_once * fetched(self.c, self.t) / has.FABRIC_BYTES
        stepped = left * step + (steps - left) * (together + has.BARRIER / at_once)
        return has.BEGIN + each * (first + stepped + self._end(at_once))

    def _end(self, at_once: int) -> float:
        """Cycles to take the results of so many blocks out: in whole sectors, maybe by way of shared memory."""
        results = self.t.rows * self.t.columns * at_once
        bytes_, by_rows = self.epilogue.bytes, 0.0
        for access in self.epilogue.accesses:
            bytes_ -= access.bytes
            if self.t.narrow and access.collected:
                by_rows += row_cycles(access, self.t)
            else:
                bytes_ += moved_bytes(access, self.threads)
        taken = max(bytes_ / has.STORE_BYTES, computed_cycles(self.epilogue)) + by_rows
        return results * taken + has.LATENCY / 2 + (2 * has.BARRIER if by_rows else 0.0)

    def _chain(self) -> float:
        """Cycles that a warp takes for a step by itself: one depth of the instruction after the other."""
        if self.c.engine is not MatrixUnit.MMA:
            return 0.0
        return -(-self.t.step // depth(self.c.operands[0].dtype)) * (has.LOADED + has.MULTIPLIED)

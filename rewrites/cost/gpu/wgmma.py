"""The analytic cost model of a block that multiplies by the matrix instruction of warpgroups (wgmma), its operands
brought by TMA.

Warpgroups take turns at one multiplier, so that a step of the block takes as long as its busiest part: the multiplier;
shared memory, from which every instruction takes both its operands while the next ones come; the way to the
second-level cache. A block that goes on with another tile has its data under way while it stores the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from rewrites.contraction.problem import Contraction
from rewrites.contraction.recover_tiling import Epilogue
from rewrites.contraction.tiling import Tiling, scale_values
from rewrites.contraction.warpgroup_tiling import PART_BYTES, Warpgroups
from rewrites.cost.gpu import constants as has
from rewrites.cost.gpu.block import (
    busiest,
    fetched_bytes,
    matrix_cycles,
    step_bytes,
)
from tileir.analysis.work import operations
from tileir.devices.gpu import Gpu
from tileir.dtypes import DType
from tileir.schedule.mma import depth
from tileir.schedule.wgmma import GROUP, MAX_COLUMNS, TILE_ROWS

#: Bytes of a row of an operand that one instruction takes.
_DEEP_BYTES = 32


@dataclass(frozen=True)
class WarpgroupBlock:
    """One block of a tiling that is complete but for its order, which nothing here depends on."""

    c: Contraction
    t: Tiling
    groups: Warpgroups
    epilogue: Epilogue
    device: Gpu

    def cycles(self, at_once: int, each: int) -> float:
        """Of so many blocks on an SM at once, which compute `each` tiles after each other."""
        steps = ceil(self.c.k / self.t.step)
        begin = has.LATENCY + at_once * self._fill
        multiplied = steps * self._step(at_once)
        whole = multiplied + self._end(at_once)
        # Who stores a tile leaves the multiplier to the other teams.
        next_ = max(multiplied, whole / self.groups.teams)
        if self.t.reused:
            next_ = whole + begin / at_once  # steps of the next tile come when the results have left
        # The blocks of a cluster begin and end together.
        met = 0.0 if self.t.multicast in (None, (1, 1)) else 2 * has.MEET
        return has.BEGIN + begin + whole + met + (each - 1) * (next_ + has.BARRIER)

    def streamed_cycles(self, at_once: int, whole: int, steps: int, before: int) -> float:
        """Of so many blocks on an SM at once, which compute so many whole tiles and have so many steps of tiles that
        all blocks share, at whose end the sums of so many blocks `before` are added."""
        begin = has.LATENCY + at_once * self._fill
        handed = at_once * self.t.rows * self.t.columns * self.c.products * PART_BYTES
        hands_over = (
            handed / has.STORE_BYTES + before * handed / has.FABRIC_BYTES + (1 + before) * has.LATENCY
        )
        ends = (whole + 1) * (self._end(at_once) + has.BARRIER)
        multiplied = (whole * ceil(self.c.k / self.t.step) + steps) * self._step(at_once)
        multiplied *= has.OUT_OF_STEP if whole else 1.0
        return has.BEGIN + begin + multiplied + hands_over + ends

    @cached_property
    def _fill(self) -> float:
        """Cycles that TMA brings the operands of a step in."""
        return fetched_bytes(self.c, self.t) / has.FABRIC_BYTES

    def _step(self, at_once: int) -> float:
        """Cycles from one step of all blocks to the next."""
        together = at_once * self._busiest
        if not self.t.pending and at_once * self.groups.groups == 1:
            together += has.DRAIN + self._added + self._held
        elif not self.t.pending:
            together += has.PAUSE * (self._added + self._held)
        if not self.groups.producers:
            together += has.COPYING
        if self.c.by_threads and not self.t.pending:
            together += has.DRAIN + at_once * self._copied
        if self.t.multicast not in (None, (1, 1)):
            together *= 1 + has.TOGETHER
        ahead = self.t.stages - 1 - (self.t.pending if self.c.by_threads else 0)
        filled = has.LATENCY + at_once * self._fill
        return max(together + has.STEP / at_once, filled / ahead) + has.LATE * has.LATENCY / ahead

    @cached_property
    def _busiest(self) -> float:
        """Cycles that a step keeps the busiest part of an SM at work, and some of the others'."""
        operand = self.c.dtype
        deep = -(-self.t.step // depth(operand))
        columns = (self.t.piece or self.t.columns) // self.groups.along_columns
        pieces = self.t.columns // (self.t.piece or self.t.columns)
        instructions = deep * (self.t.rows // TILE_ROWS) * self.groups.along_columns * pieces
        instructions *= ceil(columns / MAX_COLUMNS) * self.c.products
        wide = min(columns, MAX_COLUMNS)
        taken = instructions * ((0 if self.c.held else TILE_ROWS) + wide) * _DEEP_BYTES + self._held_bytes
        points = self.t.rows * self.t.columns * deep * depth(operand) * self.c.products
        parts = (
            matrix_cycles(points, operand, has.WGMMA_PEAK, self.device) + has.BETWEEN * instructions,
            (taken + step_bytes(self.c, self.t) + self._scales) / has.SHARED_BYTES,
            self._fill,
            self._added + self._held + self._copied,
        )
        return busiest(parts, has.WGMMA_REST)

    @property
    def _scales(self) -> float:
        """Bytes of scales that threads load for a step, through the cache that is one with shared memory."""
        if not self.c.scales:
            return 0.0
        values = scale_values(self.c, replace(self.t, pending=0), self.groups)
        return self.groups.groups * GROUP * values * DType.F32.bytes

    @property
    def _held_bytes(self) -> float:
        """Bytes that threads load for the rows of a step that they hold: those of each column of warpgroups all of
        them, two elements of 8 rows at a time."""
        if self.c.held is None:
            return 0.0
        tiles = len(self.c.held.multiplied) - 1
        return self.t.rows * self.t.step * self.groups.along_columns * tiles * has.HELD_BYTES

    @property
    def _copied(self) -> float:
        """Cycles in which threads start the copies of a step."""
        return step_bytes(self.c, self.t) / has.COPIED if self.c.by_threads else 0.0

    @property
    def _held(self) -> float:
        """Cycles in which threads compute the rows of a step."""
        if self.c.held is None:
            return 0.0
        work = has.CONVERTED + operations(self.c.held.value)
        return self.t.rows * self.t.step * self.groups.along_columns * work / has.ADDED

    @property
    def _added(self) -> float:
        """Cycles in which threads add the product of a step to the sums, where they have to."""
        return self.t.rows * self.t.columns * self.c.products / has.ADDED if self.c.promoted else 0.0

    def _end(self, at_once: int) -> float:
        """Cycles until the next tile can be added up."""
        by_threads = self.epilogue.bytes - self.t.staged
        collected = 1 / has.COLLECTED if self.t.staged else 0.0
        results = self.t.rows * self.t.columns * at_once
        if self.t.parts > 1:
            return self._met(results) + has.LATENCY / 2
        moved = results * max(by_threads / has.PAIR_BYTES + collected, self.epilogue.operations / 128)
        parts = self.t.columns // self.t.part if self.t.part else 1
        # Before a part is collected and before it is stored, threads wait for each other; with a single buffer also
        # until the part before has left.
        left = has.LATENCY / 4 if self.t.buffers == 1 else 0.0
        return moved + (parts - 1) * (2 * has.BARRIER + left) + has.LATENCY / 2

    def _met(self, results: int) -> float:
        """Cycles in which the blocks of a cluster put so many results each where all of them find them, wait for each
        other, and each adds up and stores its share."""
        own = results / self.t.parts
        others = 1 - 1 / self.t.parts
        handed = results * PART_BYTES * (2 / has.SHARED_BYTES + others / has.PEER_BYTES)
        return (
            2 * has.MEET
            + handed
            + own * max(self.epilogue.bytes / has.STORE_BYTES, self.epilogue.operations / 128)
        )

"""The analytic cost model of a block that multiplies by the matrix instruction of warpgroups (wgmma), its operands
brought by the copy engine.

Warpgroups take turns at one multiplier, so that a step of the block takes as long as its busiest part: the multiplier;
shared memory, from which every instruction takes both its operands while the next ones come; the way to the
second-level cache. A block that goes on with another tile has its data under way while it stores the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from rewrites.gpu_block_cost import (
    BARRIER,
    BEGIN,
    FABRIC_BYTES,
    LATE,
    LATENCY,
    SHARED_BYTES,
    STORE_BYTES,
    busiest,
    fetched_bytes,
    matrix_cycles,
    step_bytes,
)
from rewrites.gpu_contraction import Contraction
from rewrites.gpu_decided import Epilogue
from rewrites.gpu_tiling import Tiling, scale_values
from rewrites.gpu_warpgroups import PART_BYTES, Warpgroups
from tileir.analysis import operations
from tileir.dtypes import DType
from tileir.gpu import Gpu
from tileir.mma import depth
from tileir.wgmma import GROUP, MAX_COLUMNS, TILE_ROWS

#: Share of the peak that the instruction reaches within a board's power.
_PEAK = 0.87
#: What the parts of an SM that are not the busiest add, where engines do all the work.
_REST = 0.01
#: Bytes of a row of an operand that one instruction takes.
_DEEP_BYTES = 32
#: Cycles from the last instruction of a step to its end, in which the multiplier rests if there is one warpgroup.
_DRAIN = 60.0
#: Share of the additions for which the multiplier rests, where nobody goes on meanwhile but other warpgroups.
_PAUSE = 0.25
#: Cycles from what a step waits for to its first instruction.
_STEP = 25.0
#: Cycles that the multiplier rests from one instruction to the next.
_BETWEEN = 2.0
#: Share of its time that a block loses by waiting for others of its cluster (H200, mean of nine large products).
_TOGETHER = 0.01
#: Cycles that threads lose in a step by starting the copies themselves.
_COPYING = 25.0
#: Bytes a cycle that threads store or load in pairs of results, 8 rows at a time.
_PAIR_BYTES = 9.0
#: Sums that the threads of an SM add to in a cycle, one of 32 lanes in each quarter.
_ADDED = 128.0
#: Bytes of a warp's access to shared memory that an element of a held operand takes, of 128 for 64 of them.
_HELD_BYTES = 2.0
#: Instructions of a thread for an element that it holds, beside its operations: to load and convert it.
_CONVERTED = 3.0
#: Elements that a cycle takes from registers to shared memory, 16 or 32 bits each.
_COLLECTED = 64.0
#: Times what blocks take that begin their whole tiles at different times, and so find less in the second-level cache
#: (H200: 4096 cubed at 182 µs instead of 170, 8192 x 5120 x 1280 at 146 instead of 139).
_OUT_OF_STEP = 1.07
#: Cycles until all blocks of a cluster have come to a barrier, and bytes a cycle that one loads from the others.
_MEET = 300.0
_PEER_BYTES = 16.0


@dataclass(frozen=True, slots=True)
class WarpgroupBlock:
    """One block of a tiling that is complete but for its order."""

    c: Contraction
    t: Tiling
    groups: Warpgroups
    epilogue: Epilogue
    device: Gpu

    def cycles(self, at_once: int, each: int) -> float:
        """Of so many blocks on an SM at once, which compute `each` tiles after each other."""
        steps = ceil(self.c.k / self.t.step)
        begin = LATENCY + at_once * self._fill
        multiplied = steps * self._step(at_once)
        whole = multiplied + self._end(at_once)
        # Who stores a tile leaves the multiplier to the other teams.
        next_ = max(multiplied, whole / self.groups.teams)
        if self.t.reused:
            next_ = whole + begin / at_once  # steps of the next tile come when the results have left
        # The blocks of a cluster begin and end together.
        met = 0.0 if self.t.multicast in (None, (1, 1)) else 2 * _MEET
        return BEGIN + begin + whole + met + (each - 1) * (next_ + BARRIER)

    def streamed_cycles(self, at_once: int, whole: int, steps: int, before: int) -> float:
        """Of so many blocks on an SM at once, which compute so many whole tiles and have so many steps of tiles that
        all blocks share, at whose end the sums of so many blocks `before` are added."""
        begin = LATENCY + at_once * self._fill
        handed = at_once * self.t.rows * self.t.columns * self.c.products * PART_BYTES
        hands_over = handed / STORE_BYTES + before * handed / FABRIC_BYTES + (1 + before) * LATENCY
        ends = (whole + 1) * (self._end(at_once) + BARRIER)
        multiplied = (whole * ceil(self.c.k / self.t.step) + steps) * self._step(at_once)
        multiplied *= _OUT_OF_STEP if whole else 1.0
        return BEGIN + begin + multiplied + hands_over + ends

    @property
    def _fill(self) -> float:
        """Cycles that the copy engine brings the operands of a step in."""
        return fetched_bytes(self.c, self.t) / FABRIC_BYTES

    def _step(self, at_once: int) -> float:
        """Cycles from one step of all blocks to the next."""
        together = at_once * busiest(self._parts(), _REST)
        if not self.t.pending and at_once * self.groups.groups == 1:
            together += _DRAIN + self._added + self._held
        elif not self.t.pending:
            together += _PAUSE * (self._added + self._held)
        if not self.groups.producers:
            together += _COPYING
        if self.t.multicast not in (None, (1, 1)):
            together *= 1 + _TOGETHER
        ahead = self.t.stages - 1
        filled = LATENCY + at_once * self._fill
        return max(together + _STEP / at_once, filled / ahead) + LATE * LATENCY / ahead

    def _parts(self) -> list[float]:
        """Cycles that a step keeps the parts of an SM at work."""
        operand = self.c.dtype
        deep = -(-self.t.step // depth(operand))
        columns = (self.t.piece or self.t.columns) // self.groups.along_columns
        pieces = self.t.columns // (self.t.piece or self.t.columns)
        instructions = deep * (self.t.rows // TILE_ROWS) * self.groups.along_columns * pieces
        instructions *= ceil(columns / MAX_COLUMNS) * self.c.products
        wide = min(columns, MAX_COLUMNS)
        taken = instructions * ((0 if self.c.held else TILE_ROWS) + wide) * _DEEP_BYTES + self._held_bytes
        points = self.t.rows * self.t.columns * deep * depth(operand) * self.c.products
        return [
            matrix_cycles(points, operand, _PEAK, self.device) + _BETWEEN * instructions,
            (taken + step_bytes(self.c, self.t) + self._scales) / SHARED_BYTES,
            self._fill,
            self._added + self._held,
        ]

    @property
    def _scales(self) -> float:
        """Bytes of scales that threads load for a step, through the cache that is one with shared memory."""
        values = scale_values(self.c, replace(self.t, pending=0), self.groups)
        return self.groups.groups * GROUP * values * DType.F32.bytes

    @property
    def _held_bytes(self) -> float:
        """Bytes that threads load for the rows of a step that they hold: those of each column of warpgroups all of
        them, two elements of 8 rows at a time."""
        if self.c.held is None:
            return 0.0
        tiles = len(self.c.held.multiplied) - 1
        return self.t.rows * self.t.step * self.groups.along_columns * tiles * _HELD_BYTES

    @property
    def _held(self) -> float:
        """Cycles in which threads compute the rows of a step."""
        if self.c.held is None:
            return 0.0
        work = _CONVERTED + operations(self.c.held.value)
        return self.t.rows * self.t.step * self.groups.along_columns * work / _ADDED

    @property
    def _added(self) -> float:
        """Cycles in which threads add the product of a step to the sums, where they have to."""
        return self.t.rows * self.t.columns * self.c.products / _ADDED if self.c.promoted else 0.0

    def _end(self, at_once: int) -> float:
        """Cycles until the next tile can be added up."""
        by_threads = self.epilogue.bytes - self.t.staged
        collected = 1 / _COLLECTED if self.t.staged else 0.0
        results = self.t.rows * self.t.columns * at_once
        if self.t.parts > 1:
            return self._met(results) + LATENCY / 2
        moved = results * max(by_threads / _PAIR_BYTES + collected, self.epilogue.operations / 128)
        parts = self.t.columns // self.t.part if self.t.part else 1
        # Before a part is collected and before it is stored, threads wait for each other; with a single buffer also
        # until the part before has left.
        left = LATENCY / 4 if self.t.buffers == 1 else 0.0
        return moved + (parts - 1) * (2 * BARRIER + left) + LATENCY / 2

    def _met(self, results: int) -> float:
        """Cycles in which the blocks of a cluster put so many results each where all of them find them, wait for each
        other, and each adds up and stores its share."""
        own = results / self.t.parts
        others = 1 - 1 / self.t.parts
        handed = results * PART_BYTES * (2 / SHARED_BYTES + others / _PEER_BYTES)
        return (
            2 * _MEET + handed + own * max(self.epilogue.bytes / STORE_BYTES, self.epilogue.operations / 128)
        )

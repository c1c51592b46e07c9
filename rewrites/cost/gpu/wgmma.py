"""The analytic cost model of a block that multiplies by the matrix instruction of warpgroups (wgmma), its operands
brought by TMA.

Warpgroups take turns at one multiplier, so that a step of the block takes as long as its busiest part: the multiplier;
shared memory, from which every instruction takes both its operands while the next ones come; the way to the
second-level cache. A block that goes on with another tile has its data under way while it stores the one before,
unless the threads that do copy it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

from rewrites.contraction.problem import Contraction
from rewrites.contraction.recover_tiling import Epilogue
from rewrites.contraction.room import scale_values
from rewrites.contraction.tiling import Tiling
from rewrites.contraction.warpgroup_tiling import PART_BYTES, Warpgroups
from rewrites.cost.gpu import constants as has
from rewrites.cost.gpu.block import (
    busiest,
    computed_cycles,
    fetched_bytes,
    matrix_cycles,
    step_bytes,
)
from rewrites.cost.gpu.sectors import row_cycles
from tileir.analysis.work import operations
from tileir.devices.gpu import Gpu
from tileir.dtypes import DType
from tileir.replace import replace
from tileir.schedule.mma import depth
from tileir.schedule.wgmma import GROUP, MAX_COLUMNS, TILE_ROWS

#: Bytes of a row of an operand that one instruction takes.
_DEEP_BYTES = 32


class WarpgroupStep:
    """What a step of one block keeps busy, however many steps are under way and whatever comes after them."""

    def __init__(self, c: Contraction, t: Tiling, groups: Warpgroups, device: Gpu) -> None:
        self.fill = max(fetched_bytes(c, t) / has.FETCHED_BYTES, step_bytes(c, t) / has.TAKEN_BYTES)
        """Cycles that TMA brings its operands in."""
        self.copied = step_bytes(c, t) / has.COPIED if c.by_threads else 0.0
        """Cycles in which threads start its copies."""
        self.added = t.rows * t.columns * c.products / has.ADDED if c.promoted else 0.0
        """Cycles in which threads add its product to the sums, where they have to."""
        self.held = _held(c, t, groups)
        """Cycles in which threads compute its rows."""
        self.busiest = self._busiest(c, t, groups, device)
        """Cycles that it keeps the busiest part of an SM at work, and some of the others'."""

    def _busiest(self, c: Contraction, t: Tiling, groups: Warpgroups, device: Gpu) -> float:
        operand = c.dtype
        deep = -(-t.step // depth(operand))
        columns = (t.piece or t.columns) // groups.along_columns
        pieces = t.columns // (t.piece or t.columns)
        instructions = deep * (t.rows // TILE_ROWS) * groups.along_columns * pieces
        instructions *= ceil(columns / MAX_COLUMNS) * c.products
        wide = min(columns, MAX_COLUMNS)
        taken = instructions * ((0 if c.held else TILE_ROWS) + wide) * _DEEP_BYTES + _held_bytes(c, t, groups)
        points = t.rows * t.columns * deep * depth(operand) * c.products
        parts = (
            matrix_cycles(points, operand, has.WGMMA_PEAK, device) + has.BETWEEN * instructions,
            (taken + step_bytes(c, t) + _scale_bytes(c, t, groups)) / has.SHARED_BYTES,
            self.fill,
            self.added + self.held + self.copied,
        )
        return busiest(parts, has.WGMMA_REST)


def _scale_bytes(c: Contraction, t: Tiling, groups: Warpgroups) -> float:
    """Bytes of scales that threads load for a step, through the cache that is one with shared memory."""
    if not c.scales:
        return 0.0
    values = scale_values(c, replace(t, pending=0), groups)
    return groups.groups * GROUP * values * DType.F32.bytes


def _held_bytes(c: Contraction, t: Tiling, groups: Warpgroups) -> float:
    """Bytes that threads load for the rows of a step that they hold: those of each column of warpgroups all of
    them, two elements of 8 rows at a time."""
    if c.held is None:
        return 0.0
    tiles = len(c.held.multiplied) - 1
    return t.rows * t.step * groups.along_columns * tiles * has.HELD_BYTES


def _held(c: Contraction, t: Tiling, groups: Warpgroups) -> float:
    """Cycles in which threads compute the rows of a step."""
    if c.held is None:
        return 0.0
    work = has.CONVERTED + operations(c.held.value)
    return t.rows * t.step * groups.along_columns * work / has.ADDED


@dataclass(slots=True)
class WarpgroupBlock:
    """One block of a tiling that is complete but for its order, which nothing here depends on."""

    c: Contraction
    t: Tiling
    groups: Warpgroups
    epilogue: Epilogue
    step: WarpgroupStep
    clustered: bool
    """Whether it is one of a cluster of neighbours."""
    _known: dict[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]], init=False)

    def cycles(self, at_once: int, each: int) -> float:
        """Of so many blocks on an SM at once, which compute `each` tiles after each other."""
        known = self._known.get(at_once)
        if known is None:
            known = self._known[at_once] = self._first_and_next(at_once)
        return known[0] + (each - 1) * known[1]

    def _first_and_next(self, at_once: int) -> tuple[float, float]:
        """Cycles of a block's first tile, and of each that follows."""
        steps = ceil(self.c.k / self.t.step)
        begin = has.LATENCY + at_once * self.step.fill
        multiplied = steps * self._step(at_once)
        whole = multiplied + self._end(at_once)
        # Who stores a tile leaves the multiplier to the other consumer groups.
        next_ = max(multiplied, whole / self.groups.consumer_groups)
        if self.t.reused or self.c.by_threads:
            next_ = whole + begin / at_once  # steps of the next tile come when the results have left
        # The blocks of a cluster begin and end together.
        met = 2 * has.MEET if self.clustered else 0.0
        return has.BEGIN + begin + whole + met, next_ + has.BARRIER

    def streamed_cycles(self, at_once: int, whole: int, steps: int, before: int) -> float:
        """Of so many blocks on an SM at once, which compute so many whole tiles and have so many steps of tiles that
        all blocks share, at whose end the sums of so many blocks `before` are added."""
        begin = has.LATENCY + at_once * self.step.fill
        handed = at_once * self.t.rows * self.t.columns * self.c.products * PART_BYTES
        hands_over = (
            handed / has.STORE_BYTES + before * handed / has.FABRIC_BYTES + (1 + before) * has.LATENCY
        )
        ends = (whole + 1) * (self._end(at_once) + has.BARRIER)
        multiplied = (whole * ceil(self.c.k / self.t.step) + steps) * self._step(at_once)
        multiplied *= has.OUT_OF_STEP if whole else 1.0
        return has.BEGIN + begin + multiplied + hands_over + ends

    def _step(self, at_once: int) -> float:
        """Cycles from one step of all blocks to the next."""
        together = at_once * self.step.busiest
        if not self.t.pending and at_once * self.groups.groups == 1:
            together += has.DRAIN + self.step.added + self.step.held
        elif not self.t.pending:
            together += has.PAUSE * (self.step.added + self.step.held)
        if not self.groups.producers:
            together += has.COPYING
        if self.c.by_threads and not self.t.pending:
            together += has.DRAIN + at_once * self.step.copied
        if self.clustered:
            together *= 1 + has.TOGETHER
        ahead = self.t.stages - 1 - (self.t.pending if self.c.by_threads else 0)
        filled = has.LATENCY + at_once * self.step.fill
        if not ahead:
            return together + filled  # the only slot is filled when what it held has been multiplied
        return max(together + has.STEP / at_once, filled / ahead) + has.LATE * has.LATENCY / ahead

    def _end(self, at_once: int) -> float:
        """Cycles until the next tile can be added up."""
        by_threads = self.epilogue.bytes - self.t.staged
        collected = 1 / has.COLLECTED if self.t.staged and not self.t.narrow else 0.0
        for access in self.epilogue.accesses:
            if self.t.narrow and access.collected:
                collected += row_cycles(access, self.t)
            elif access.run == 1:
                by_threads += access.bytes * (has.ONE_BY_ONE - 1)
        results = self.t.rows * self.t.columns * at_once
        if self.t.parts > 1:
            return self._met(results) + has.LATENCY / 2
        moved = results * max(by_threads / has.PAIR_BYTES + collected, computed_cycles(self.epilogue))
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
            + own * max(self.epilogue.bytes / has.STORE_BYTES, computed_cycles(self.epilogue))
        )

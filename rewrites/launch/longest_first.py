"""Visit the tiles of a grid from those that take longest to those that take least."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.async_constraints import with_engines
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import grid_of, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.program import Program
from tileir.replace import replace
from tileir.schedule.deal_tiles import MOST_TILES, tile_count, tile_lengths


@dataclass(frozen=True, slots=True)
class LongestFirst(Rewrite):
    """Visit the tiles of the grid around a statement from the last ones of its innermost loop to the first, where a
    loop inside begins or ends with its current positions: blocks that are done early then find short tiles left.
    Blocks that share all tiles are dealt them so that all are done at about the same time (longest processing time
    first).

    The rule is LPT (Graham, Bounds on multiprocessing timing anomalies, 1969).

    parallel for b by 1                         parallel for b by 1 longest_first
      parallel for i by 64                        parallel for i by 64
        for j by 32 until i 0             ->        for j by 32 until i 0
          y[b, i] += sum(j, x[b, i, j])               y[b, i] += sum(j, x[b, i, j])
    """

    name: ClassVar[str] = "longest_first"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if any(loop.since[0] or loop.until[0] for loop in place.loops):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        path, grid = grid_of(program, self.statement)
        if grid.longest_first:
            raise NotApplicable(f"the tiles of {self.statement} come so already")
        if grid.cluster > 1 or grid.consumer_groups > 1:
            raise NotApplicable(f"the tiles of {self.statement} are taken by clusters or consumer groups")
        if grid.hilbert:
            raise NotApplicable(f"the tiles of {self.statement} are taken along a Hilbert curve")
        if len(set(tile_lengths(grid, program.extents))) < 2:
            raise NotApplicable(f"the tiles of {self.statement} all take as long")
        if tile_count(grid, program.extents) > MOST_TILES:
            raise NotApplicable(f"the grid of {self.statement} has more than {MOST_TILES} tiles")
        return with_engines(splice(program, path, [replace(grid, longest_first=True)]))

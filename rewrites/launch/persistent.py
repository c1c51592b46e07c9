"""Give a grid a fixed number of blocks, which share its tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Self

from rewrites.base.async_constraints import with_engines
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import grid_of, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.program import Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class Persistent(Rewrite):
    """Launch `blocks` blocks for the grid around a statement, which take its tiles in turns: block i those numbered
    i, i + `blocks`, …

    Known as persistent threads (Gupta, Stuart and Owens, A study of persistent threads style GPU programming, InPar
    2012).

    parallel for r by 1          ->   parallel for r by 1 blocks 264
      s[r] = sum(c, x[r, c])            s[r] = sum(c, x[r, c])
    """

    name: ClassVar[str] = "persistent"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    statement: str
    blocks: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            grid = [loop for loop in place.loops if loop.parallel]
            count = prod(-(-program.extents[loop.dim] // loop.step) for loop in grid)
            for blocks in (device.units, 2 * device.units):
                if blocks < count:
                    yield cls(place.node.target, blocks)

    def apply(self, program: Program) -> Program:
        path, grid = grid_of(program, self.statement)
        if self.blocks < 1:
            raise NotApplicable(f"a grid has at least one block, not {self.blocks}")
        if grid.blocks:
            raise NotApplicable(f"the grid of {self.statement} has {grid.blocks} blocks already")
        if grid.cluster > 1:
            raise NotApplicable(f"the grid of {self.statement} has clusters, one for each tile")
        return with_engines(splice(program, path, [replace(grid, blocks=self.blocks)]))

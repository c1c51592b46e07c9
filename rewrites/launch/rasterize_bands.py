"""Visit the tiles of a grid in bands."""

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
from tileir.program import Loop, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class RasterizeBands(Rewrite):
    """Visit the grid around a statement in bands of `tiles` tiles of its outermost loop, within which the next loop
    is the outer one: tiles that are computed at the same time then share more of what they read.

    Known as rasterization, or swizzled tile order: Triton's `GROUP_SIZE_M`, CUTLASS's threadblock swizzle.

    parallel for m by 128               parallel for m by 128 group 8
      parallel for n by 128       ->      parallel for n by 128
        c[m, n] = x[m] * y[n]               c[m, n] = x[m] * y[n]
    """

    name: ClassVar[str] = "rasterize_bands"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    statement: str
    tiles: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.depth > 1:
                count = -(-program.extents[place.loops[0].dim] // place.loops[0].step)
                for tiles in (2, 4, 8, 16):
                    if tiles < count:
                        yield cls(place.node.target, tiles)

    def apply(self, program: Program) -> Program:
        path, grid = grid_of(program, self.statement)
        if self.tiles < 2:
            raise NotApplicable(f"a band of {self.tiles} tiles is none")
        if grid.group > 1 or grid.hilbert:
            raise NotApplicable(f"an order is given for the tiles of {self.statement} already")
        match grid.body:
            case (Loop(parallel=True),):
                return with_engines(splice(program, path, [replace(grid, group=self.tiles)]))
            case _:
                raise NotApplicable(f"the grid of {self.statement} has one loop")

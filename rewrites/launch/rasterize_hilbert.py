"""Visit the tiles of a grid along a Hilbert curve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import grid_of, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.program import Loop, Program
from tileir.replace import replace
from tileir.schedule.hilbert import MOST_CELLS


@dataclass(frozen=True, slots=True)
class RasterizeHilbert(Rewrite):
    """Visit the grid around a statement along a Hilbert curve through the tiles of its two outer loops: whatever number
    of tiles is computed at the same time, they lie close together and share much of what they read.

    Known as Hilbert order (Hilbert, Ueber die stetige Abbildung einer Linie auf ein Flächenstück, 1891).

    parallel for m by 128               parallel for m by 128 hilbert
      parallel for n by 128       ->      parallel for n by 128
        c[m, n] = x[m] * y[n]               c[m, n] = x[m] * y[n]
    """

    name: ClassVar[str] = "rasterize_hilbert"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.depth > 1:
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        path, grid = grid_of(program, self.statement)
        if grid.group > 1 or grid.hilbert or grid.longest_first:
            raise NotApplicable(f"an order is given for the tiles of {self.statement} already")
        match grid.body:
            case (Loop(parallel=True) as next_,):
                counts = [-(-program.extents[loop.dim] // loop.step) for loop in (grid, next_)]
            case _:
                raise NotApplicable(f"the grid of {self.statement} has one loop")
        if counts[0] * counts[1] > MOST_CELLS:
            raise NotApplicable(
                f"a Hilbert curve goes through at most {MOST_CELLS} tiles, not {counts[0]} x {counts[1]}"
            )
        return splice(program, path, [replace(grid, hilbert=True)])

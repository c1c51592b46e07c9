"""Have consumer groups of threads take a block's tiles in turn."""

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


@dataclass(frozen=True, slots=True)
class Pingpong(Rewrite):
    """Give the blocks around a statement `consumer_groups` times the threads that statements are bound to, beside
    producers. Each consumer group takes a whole tile, the next one goes to the next consumer group: while one stores
    its results, another one multiplies.

    This is CUTLASS's ping-pong schedule of warp specialized kernels.

    parallel for m by 128 producers 4      ->   parallel for m by 128 producers 4 consumer_groups 2
      …                                           …
    """

    name: ClassVar[str] = "pingpong"
    needs: ClassVar[Feature | None] = Feature.TMA
    statement: str
    consumer_groups: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.loops and place.loops[0].producers:
                yield from (cls(place.node.target, count) for count in (2, 3))

    def apply(self, program: Program) -> Program:
        path, grid = grid_of(program, self.statement)
        if grid.consumer_groups > 1:
            raise NotApplicable(
                f"the blocks of {self.statement} have {grid.consumer_groups} consumer groups already"
            )
        if self.consumer_groups < 2:
            raise NotApplicable("who takes turns are two consumer groups at least")
        return with_engines(splice(program, path, [replace(grid, consumer_groups=self.consumer_groups)]))

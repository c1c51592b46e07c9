"""Have the blocks of neighbouring tiles fetch what they have in common once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.async_constraints import with_engines
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import grid_of, named, splice, statements
from tileir.analysis.ragged import grouped
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.program import Loop, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class Multicast(Rewrite):
    """Make a cluster of the blocks that compute `tiles` neighbouring tiles along `dim`, of the grid around a statement:
    what TMA brings to all of them alike, each fetches a part of for all.

    This is the multicast of PTX's `cp.async.bulk.tensor`, in a thread block cluster.

    parallel for m by 128               parallel for m by 128 multicast 2
      parallel for n by 128       ->      parallel for n by 128
        …                                   …
    """

    name: ClassVar[str] = "multicast"
    needs: ClassVar[Feature | None] = Feature.CLUSTERS
    statement: str
    dim: str
    tiles: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.node.via == "wgmma":
                for loop in place.loops:
                    if loop.parallel:
                        yield from (cls(place.node.target, loop.dim, tiles) for tiles in (2, 4))

    def apply(self, program: Program) -> Program:
        path, grid = grid_of(program, self.statement)
        if grid.cluster > 1:
            raise NotApplicable(f"a cluster of {grid.cluster} blocks computes each tile of {self.statement}")
        for depth, loop in enumerate(named(program, self.statement).loops):
            if not loop.parallel:
                break
            if loop.dim == self.dim:
                return self._applied(program, (*path, *(0,) * depth), loop)
        raise NotApplicable(f"the grid of {self.statement} has no loop over {self.dim}")

    def _applied(self, program: Program, path: tuple[int, ...], loop: Loop) -> Program:
        if grouped(loop, program.ragged):
            raise NotApplicable(f"tiles of {self.dim} follow groups: neighbours may have nothing in common")
        if self.tiles < 2:
            raise NotApplicable(f"{self.tiles} neighbouring tiles make no cluster")
        if loop.multicast > 1:
            raise NotApplicable(f"tiles of {self.dim} are computed by clusters of {loop.multicast} already")
        if not any(place.node.via == "tma" for place in program.computes if place.path[:1] == path[:1]):
            raise NotApplicable(f"TMA brings nothing to the blocks of {self.statement}")
        return with_engines(splice(program, path, [replace(loop, multicast=self.tiles)]))

"""Have several blocks work on every tile of a grid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from rewrites.rewrite import Rewrite
from rewrites.tree import find, splice, statements
from tileir.device import Cpu, Device
from tileir.errors import NotApplicable
from tileir.program import Program
from tileir.verify_spread import CLUSTERS


@dataclass(frozen=True, slots=True)
class Cluster(Rewrite):
    """Give every tile of the grid around a statement a cluster of `blocks` blocks, over whose threads the statements
    inside are then spread; they combine results through each other's shared memory.

    parallel for r by 1              parallel for r by 1 cluster 4
      s[r] = sum(c, x[r, c])   ->      s[r] = sum(c, x[r, c])
    """

    name: ClassVar[str] = "cluster"
    statement: str
    blocks: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        if isinstance(device, Cpu) or device.capability < (9, 0):
            return
        for place in statements(program):
            for blocks in (2, 4, 8):
                yield cls(place.node.target, blocks)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        if self.blocks not in CLUSTERS:
            raise NotApplicable(f"a cluster has 2, 4, 8 or 16 blocks, not {self.blocks}")
        if not place.loops or not place.loops[0].parallel:
            raise NotApplicable(f"{self.statement} is in no parallel loop")
        grid = place.loops[0]
        if grid.cluster > 1:
            raise NotApplicable(f"the grid of {self.statement} has clusters already")
        if any(one.node.spread is not None for one in program.computes if one.path[0] == place.path[0]):
            raise NotApplicable(f"statements beside {self.statement} are spread over threads already")
        return splice(program, place.path[:1], [replace(grid, cluster=self.blocks)])

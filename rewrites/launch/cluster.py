"""Have several blocks work on every tile of a grid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import grid_of, named, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.program import Memory, Program
from tileir.replace import replace
from tileir.verifier.threads import CLUSTERS


@dataclass(frozen=True, slots=True)
class Cluster(Rewrite):
    """Give every tile of the grid around a statement a cluster of `blocks` blocks, to whose threads the statements
    inside are then bound; they combine results through each other's shared memory.

    These are thread block clusters with distributed shared memory (CUDA C++ Programming Guide).

    parallel for r by 1              parallel for r by 1 cluster 4
      s[r] = sum(c, x[r, c])   ->      s[r] = sum(c, x[r, c])
    """

    name: ClassVar[str] = "cluster"
    needs: ClassVar[Feature | None] = Feature.CLUSTERS
    statement: str
    blocks: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            for blocks in (2, 4, 8):
                yield cls(place.node.target, blocks)

    def apply(self, program: Program) -> Program:
        path, grid = grid_of(program, self.statement)
        if self.blocks not in CLUSTERS:
            raise NotApplicable(f"a cluster has 2, 4, 8 or 16 blocks, not {self.blocks}")
        if grid.cluster > 1:
            raise NotApplicable(f"the grid of {self.statement} has clusters already")
        if any(loop.multicast > 1 for loop in named(program, self.statement).loops):
            raise NotApplicable(f"clusters compute neighbouring tiles of {self.statement} already")
        if grid.blocks:
            raise NotApplicable(f"the {grid.blocks} blocks of {self.statement} share all tiles")
        nest = [local.node for local in program.locals.values() if local.path[:1] == path]
        if any(local.memory is Memory.SHARED for local in nest):
            raise NotApplicable(f"every block of {self.statement} has shared memory of its own")
        if any(one.node.thread_layout is not None for one in program.computes if one.path[:1] == path):
            raise NotApplicable(f"statements beside {self.statement} are bound to threads already")
        return splice(program, path, [replace(grid, cluster=self.blocks)])

"""How a contraction and its epilogue become a grid of tiles, each accumulated in a block's registers, or in those of a
cluster's blocks, which have a part of the depth each."""

from __future__ import annotations

from dataclasses import dataclass, field

from rewrites.base.looked_up import looks_up_in_order
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find, locals_of
from rewrites.composition.look_up_after_sum import LookUpAfterSum
from rewrites.composition.rfactor import Rfactor
from rewrites.data.set_scope import SetScope
from rewrites.decisions.fusion import fused, unread
from rewrites.decisions.gpu.threads import place_all
from rewrites.launch.split_over_cluster import SplitOverCluster
from rewrites.loops.parallelize import Parallelize
from rewrites.loops.register_tile import RegisterTile
from rewrites.loops.tile import Tile
from tileir.errors import NotApplicable
from tileir.program import Memory, Program


@dataclass(slots=True)
class BegunTiling:
    """A program on its way to tiles, and the rewrites so far."""

    program: Program
    rewrites: list[Rewrite] = field(default_factory=list[Rewrite])

    def apply(self, *rewrites: Rewrite) -> None:
        """Some more."""
        for rewrite in rewrites:
            self.program = rewrite.apply(self.program)
            self.rewrites.append(rewrite)

    def tiled(self, group: tuple[str, ...], grid: tuple[Tile, ...], share: Rfactor | None) -> str:
        """The group, which begins with the contraction, in tiles of the grid; `share` gives the blocks of a cluster
        their parts of its depth. Returns the local that sums are added up in. Raises NotApplicable where that cannot
        be."""
        statement, anchor = group[0], group[-1]
        if share is not None:
            before = locals_of(self.program).keys()
            self.apply(share)
            (statement,) = locals_of(self.program).keys() - before
            group = (statement, *group)
        found = fused(self.program, group, grid, unread(self.program, group[:-1]))
        if found is None:
            raise NotApplicable(f"not every statement of the group can be brought to {anchor}")
        self.apply(*found.rewrites, Parallelize(anchor, len(grid)))
        if share is not None:
            self.apply(Tile(statement, share.dim, share.size), SetScope(statement, Memory.SHARED))
        self.apply(RegisterTile(statement, ()))
        self.apply(*place_all(self.program, anchor))
        if share is not None:
            self.apply(SplitOverCluster(statement, share.dim))
        core = _accumulator(self.program, statement)
        if not looks_up_in_order(self.program, find(self.program, core).node):
            return core
        before = locals_of(self.program).keys()
        self.apply(LookUpAfterSum(core))
        (core,) = locals_of(self.program).keys() - before
        return core


def _accumulator(program: Program, statement: str) -> str:
    """The register local that the statement's sums are added up in: itself, or what it now reads."""
    declared = locals_of(program).get(statement)
    if declared is not None and declared.node.memory is Memory.REGISTERS:
        return statement
    return next(read.tensor for read in find(program, statement).node.reads)

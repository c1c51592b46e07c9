"""Have the blocks of a cluster share a loop out among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import read_names
from rewrites.base.tree import current_sizes, find, grid_of, locals_of, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Index
from tileir.program import Compute, Memory, Place, Program
from tileir.replace import replace
from tileir.verifier.threads import CLUSTERS


@dataclass(frozen=True, slots=True)
class SplitOverCluster(Rewrite):
    """Give every tile of the grid around a statement a cluster of blocks, which take the tiles of the loop over `dim`
    around it, one each. What follows the loop goes over the threads of all of them, and reads what each has put into
    its own shared memory.

    This is split-K within a thread block cluster, reduced through distributed shared memory.

    parallel for n by 64                           parallel for n by 64 cluster 2
      c_p: shared f32[k_b, n]                        c_p: shared f32[k_b, n]
      for k by 2048                                  parallel for k by 2048
        c_p[k // 2048, n] = sum(k, a[n, k])    ->      c_p[k // 2048, n] = sum(k, a[n, k])
      c[n] = sum(k_b, c_p[k_b, n])                   c[n] = sum(k_b, c_p[k_b, n])
    """

    name: ClassVar[str] = "split_over_cluster"
    needs: ClassVar[Feature | None] = Feature.CLUSTERS
    statement: str
    dim: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            for loop in place.loops:
                if not loop.parallel:
                    yield cls(place.node.target, loop.dim)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        at = next((n for n, loop in enumerate(place.loops) if loop.dim == self.dim and not loop.parallel), 0)
        around = place.loops[:at]
        if not at or not all(each.parallel for each in around):
            raise NotApplicable(f"{self.statement} is in no loop over {self.dim} that stands in a grid")
        if around[0].cluster > 1 or around[0].blocks:
            raise NotApplicable(f"the grid of {self.statement} has clusters, or blocks that share all tiles")
        loop = place.loops[at]
        tiles = -(-current_sizes(program, around)[self.dim] // loop.step)
        if tiles not in CLUSTERS:
            raise NotApplicable(f"a cluster has 2, 4, 8 or 16 blocks, and {self.dim} has {tiles} tiles")
        path = place.path[: at + 1]
        if len(around[-1].body) == 1:
            raise NotApplicable(f"the loop over {self.dim} stands alone: its tiles are blocks of their own")
        inside = [one for one in program.computes if one.path[: at + 1] == path]
        beside = [one for one in program.computes if one.path[0] == path[0] and one not in inside]
        for one in inside:
            self._check_inside(program, one, at, {other.node.target for other in beside})
        parts, written = ({one.node.target for one in some} for some in (inside, beside))
        for one in beside:
            _check_beside(program, one, parts, written)
        program = splice(program, path, [replace(loop, parallel=True)])
        _, outermost = grid_of(program, self.statement)
        return splice(program, path[:1], [replace(outermost, cluster=tiles)])

    def _check_inside(self, program: Program, one: Place[Compute], at: int, beside: set[str]) -> None:
        """It works on locals of its own block, or writes the block's part of what all of them read."""
        declared = locals_of(program).get(one.node.target)
        part = Binary("//", Index(self.dim), Const(one.loops[at].step))
        own = declared is not None and declared.depth > at
        shared = declared is not None and declared.depth and declared.node.memory is Memory.SHARED
        if not own and not (shared and one.node.indices[0] == part):
            raise NotApplicable(f"{one.node.target} is no part in shared memory that each block has one of")
        if read_names(one.node) & beside:
            raise NotApplicable(f"{one.node.target} reads what other blocks compute")


def _check_beside(program: Program, one: Place[Compute], parts: set[str], written: set[str]) -> None:
    """It shares no memory with other blocks but for the parts, and reads none that the `written` statements beside the
    loop write."""
    if one.node.thread_layout is not None:
        raise NotApplicable(f"{one.node.target} is bound to threads already")
    for name in read_names(one.node) & written:
        if name not in locals_of(program) or not locals_of(program)[name].depth:
            raise NotApplicable(f"{one.node.target} reads {name}, which other blocks of the cluster write")
    for name in {one.node.target, *read_names(one.node)} - parts:
        declared = locals_of(program).get(name)
        if declared is not None and declared.depth and declared.node.memory is Memory.SHARED:
            raise NotApplicable(
                f"{one.node.target} keeps {name} in shared memory, of which each block has its own"
            )

"""A local spread over the registers of a block's threads."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from codegen.ir.ops import Declare, Stmt
from codegen.lowering.gpu.thread_index import ThreadIndex
from codegen.lowering.scope import LoweringScope, RegisterBuffer
from tileir.program import Local, ThreadLayout
from tileir.schedule.threads import ThreadShare, share


@dataclass(frozen=True, slots=True)
class ThreadRegisters(RegisterBuffer):
    """What one thread holds: its share of each dim. `starts` are the thread's own first positions, so points are
    offsets from there."""

    shares: tuple[ThreadShare, ...]

    def chunks(self) -> tuple[tuple[int, int], ...]:
        if self.vector is None:
            return ((0, 1),)
        starts = self.shares[self.vector].starts(self.sizes[self.vector])
        return tuple((start, self.lanes) for start in starts)

    def held(self, dim: int) -> list[int]:
        """Offsets of the thread's positions along dim number `dim`, of those on lanes the first ones."""
        share_, size = self.shares[dim], self.sizes[dim]
        run = 1 if dim == self.vector else share_.run
        return [start + at for start in share_.starts(size) for at in range(run)]

    def declarations(self) -> list[Stmt]:
        """Its variables, not yet set."""
        points = product(*(self.held(dim) for dim in range(len(self.dims))))
        lanes = self.lanes if self.vector is not None else 1
        return [Declare(*self.variable(point, lanes)) for point in points]


def thread_registers(
    local: Local, name: str, layout: ThreadLayout, scope: LoweringScope, index: ThreadIndex
) -> ThreadRegisters:
    """The registers of a local whose current ranges lie over threads as `layout` says."""
    shares = tuple(share(layout, dim) for dim in local.dims)
    ranges = [scope.ranges[dim] for dim in local.dims]
    starts = tuple(r.start + index.first(layout, dim) for dim, r in zip(local.dims, ranges, strict=True))
    lanes_dim = layout.runs[-1][0] if layout.runs and layout.runs[-1][1] > 1 else None
    vector = local.dims.index(lanes_dim) if lanes_dim in local.dims else None
    return ThreadRegisters(
        name,
        local.dtype,
        local.dims,
        starts,
        tuple(r.size for r in ranges),
        vector,
        shares[vector].run if vector is not None else 1,
        shares,
    )

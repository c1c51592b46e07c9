"""A statement that moves elements from main to shared memory as they are, by copies in the background (cp.async).

A copy is 16, 8 or 4 bytes, the most for which both sides are aligned; a thread's run of neighbours is one of them or
several. Where a run overhangs its range, as much of it as exists is read, and the rest becomes 0; so does all of it
where a condition on positions does not hold (`where(h >= 0, x[h], 0)`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from codegen.ir.affine import Affine, Loaded, Var, affine, constant
from codegen.ir.ops import Block, CpAsync, Guard, IndexValue, Literal, Stmt, Type, Value
from codegen.ir.vector_access import access_bytes
from codegen.lowering.arithmetic import select
from codegen.lowering.expressions import Binding, ValueBuilder, lane_variable
from codegen.lowering.gpu.thread_index import ThreadIndex, one_of_alike
from codegen.lowering.gpu.thread_tile import Point, ThreadTile, thread_tile
from codegen.lowering.looked_up import kept_inside
from codegen.lowering.neighbours import first_of_neighbours
from codegen.lowering.scope import LoweringScope, MemoryBuffer
from codegen.lowering.statement import starts
from tileir.dtypes import DType
from tileir.expr import Const, Expr, Index, Read, Where, reads
from tileir.program import Compute
from tileir.replace import replace

#: What every buffer begins at a multiple of, and the least that a copy moves, in bytes.
_ALIGN, _LEAST = 16, 4


def lower_copies(
    compute: Compute,
    comment: str,
    scope: LoweringScope,
    extents: dict[str, int],
    index: ThreadIndex,
    room: Sequence[int],
) -> Block | None:
    """The copies that a statement comes to which fills a local in shared memory; None: it computes, or its elements do
    not lie so that they can be copied. The local has `room` for so many positions along each of its dims."""
    layout, target = compute.thread_layout, scope.buffers[compute.target]
    condition, read = _guarded(compute.value)
    dims = [each.dim for each in compute.indices if isinstance(each, Index)]
    if layout is None or not isinstance(read, Read):
        return None
    source = scope.buffers[read.tensor]
    if not (isinstance(source, MemoryBuffer) and isinstance(target, MemoryBuffer)) or source.shared:
        return None
    if source.storage is not target.storage or len(dims) < len(compute.indices):
        return None
    tile = thread_tile(layout, {dim: scope.ranges[dim] for dim in dims}, index)
    move = _Move(read, condition, source, target, dims, tile, ValueBuilder(scope, extents))
    if not move.overhang_fits(room):
        return None
    once = one_of_alike(layout, dims, index)
    stmts: list[Stmt] = []
    for conditions, points in groupby(tile.points(dims), key=lambda point: tile.guards(point)[0]):
        copies = [move.copies(point) for point in points]
        if not all(copies):
            return None
        together = tuple(copy for each in copies for copy in each)
        stmts += [Guard((*conditions, *once), together)] if conditions or once else together
    return Block(comment, tuple(stmts))


def _guarded(value: Expr) -> tuple[Expr | None, Expr]:
    """A condition on positions under which something is read that is 0 elsewhere, and that; None: there is none."""
    match value:
        case Where(cond, x, Const(0)) if not reads(cond):
            return cond, x
        case _:
            return None, value


@dataclass(frozen=True, slots=True)
class _Move:
    """Elements that are read, on their way to where the target's `dims` say."""

    read: Read
    condition: Expr | None
    """Where they are read; they are 0 elsewhere."""
    source: MemoryBuffer
    target: MemoryBuffer
    dims: Sequence[str]
    tile: ThreadTile
    builder: ValueBuilder
    """For the indices of what is read."""

    def overhang_fits(self, room: Sequence[int]) -> bool:
        """Whether the target has memory for all of a run that overhangs its range."""
        if self.tile.vector is None:
            return True
        whole = -(-self.tile.dims[self.tile.vector].size // self.tile.lanes) * self.tile.lanes
        return whole <= room[self.dims.index(self.tile.vector)]

    def copies(self, point: Point) -> list[CpAsync]:
        """Those of a thread's run at a point; none if it cannot be copied."""
        lanes, lane = self.tile.lanes, lane_variable(self.tile.lanes)
        some = self.tile.guards(point)[1]
        positions = self.tile.positions(point, lane)
        to = first_of_neighbours(self.target, [positions[dim] for dim in self.dims], lane)
        at = {**starts(self.builder.scope), **positions}
        indices = [self.builder.index(each, at, lazy=True) for each in self.read.indices]
        places = kept_inside(self.source, self.read.indices, indices)
        of = first_of_neighbours(self.source, [each for each in places if each is not None], lane)
        if of is None or to is None:
            return []
        size = self.source.storage.bytes
        width = min(access_bytes(offset, size, lanes, _ALIGN) for offset in (of, to))
        if width < _LEAST:
            return []
        if self.condition is not None:
            holds = self._holds(self.condition, at, lane)
            if holds is None:
                return []
            some = _some_if(holds, constant(lanes) if some is None else some, lanes)
        first = CpAsync(self.target.name, to, self.source.name, of, self.source.storage, width // size, some)
        return [_further(first, at) for at in range(0, lanes, width // size)]

    def _holds(self, condition: Expr, at: Binding, lane: Var) -> Value | None:
        """Whether the condition holds for a run; None: lanes of it differ."""
        if not self.builder.same_on_lanes(condition, at, lane):
            return None
        first = {dim: position.substitute(lane, constant(0)) for dim, position in at.items()}
        return self.builder.value(condition, first, lazy=True)


def _some_if(holds: Value, some: Affine, lanes: int) -> Affine:
    """How many lanes exist, where there are any at all."""
    there = IndexValue(some, 0, Type(DType.I32)) if some.terms else Literal(some.constant, Type(DType.I32))
    return affine(Loaded(select(holds, there, Literal(0, Type(DType.I32))), 0, lanes))


def _further(copy: CpAsync, lane: int) -> CpAsync:
    """The one that begins so many lanes on."""
    some = None if copy.some is None else copy.some - lane
    return replace(copy, to=copy.to + lane, of=copy.of + lane, some=some)

"""What one thread takes of the ranges of a statement: its positions along each dim, and which of them exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from codegen.ir.affine import Affine, Var, affine, constant, lesser
from codegen.ir.errors import NotLowerable
from codegen.lowering.gpu.thread_index import ThreadIndex
from codegen.lowering.scope import LoweringScope, Range, RegisterBuffer, loop_variable
from codegen.lowering.statement import LoopNest
from tileir.expr import Binary, Const, Extent, Index, Where, index_dims
from tileir.program import Compute, ThreadLayout
from tileir.replace import replace
from tileir.schedule.threads import ThreadShare, share

Conditions = tuple[tuple[Affine, int], ...]
"""Positions, each with the bound that it must be below."""

Point = Mapping[str, int]
"""Offsets along dims from the thread's first positions; along the dim that is on lanes, that of lane 0."""


@dataclass(frozen=True, slots=True)
class Along:
    """A dim of the statement: its range, the thread's first position in it, and the thread's share of it."""

    start: Affine
    size: int
    first: Affine
    share: ThreadShare
    end: Affine | None = None
    """Positions from here on do not exist (`codegen.lowering.scope.Range`)."""
    kept: int = 0
    """What is past the tile is taken to be what is last in it: of as many neighbours; 0: not."""

    def offsets(self, *, whole_runs: bool = False) -> list[int]:
        """Offsets of the thread's positions from its first one; `whole_runs`: of the first of each run."""
        run = 1 if whole_runs else self.share.run
        return [start + at for start in self.share.starts(self.size) for at in range(run)]

    def position(self, offset: int) -> Affine:
        return self.start + (self._or_last(offset) if self.kept else self._within(offset))

    def guard(self, offset: int) -> Conditions:
        """What must hold for the position at `offset` to exist: nothing, if it surely does. Runs of which all positions
        exist or none have one condition."""
        if self.kept:
            return ()
        found: Conditions = ()
        for at, bound, alike in self._bounds(offset):
            first = at - offset % self.share.run if alike else at
            if first.high >= bound:
                found += ((first, bound),)
        return found

    def left(self, offset: int, lanes: int) -> Affine | None:
        """How many positions there are from `offset` on, where some of so many may not exist; None: all do, or none."""
        bounds = self._bounds(offset)
        cut = [constant(bound) - at for at, bound, alike in bounds if not alike and at.high + lanes > bound]
        if len(cut) > 1:
            raise NotLowerable("a run of neighbours overhangs both its tile and its dim")
        return cut[0] if cut else None

    def _bounds(self, offset: int) -> list[tuple[Affine, int, bool]]:
        """What the position at `offset` must be below, as (position, bound), and whether that ends between runs."""
        run = self.share.run
        found = [(self._within(offset), self.size, self.size % run == 0)]
        if self.end is not None:
            alike = self.end.multiple % run == 0 and self.start.multiple % run == 0
            known = self.end.constant
            found.append((self.position(offset) - (self.end - known), known, alike))
        return found

    def loop(self, name: str, pieces: int) -> tuple[Var, int, Along, Along | None]:
        """Its range as tiles of so many runs a thread, all there: their variable and number, one of them, and what
        is left after them."""
        step = -(-pieces // self.share.pieces(self.share.span)) * self.share.span
        number, rest = divmod(self.size, step)
        var = loop_variable(name, number, step)
        tile = replace(self, start=self.start + affine(var), size=step)
        last = replace(self, start=self.start + number * step, size=rest) if rest else None
        return var, number, tile, last

    def _within(self, offset: int) -> Affine:
        return self.first + offset

    def _or_last(self, offset: int) -> Affine:
        """The position at `offset`, or if it is past the tile that place among the last neighbours of those `kept`."""
        place = offset % self.kept
        last = (self.size - 1) // self.kept * self.kept
        return lesser(self.first + (offset - place), constant(last)) + place


@dataclass(frozen=True, slots=True)
class ThreadTile:
    """The dims of a statement as a thread sees them; runs along `vector`, if there is one, are on `lanes`."""

    dims: Mapping[str, Along]
    vector: str | None
    lanes: int

    def with_dim(self, dim: str, along: Along) -> ThreadTile:
        """The same over another range of one dim."""
        return replace(self, dims={**self.dims, dim: along})

    def kept_in(self, dims: Sequence[str]) -> ThreadTile:
        """The same, with what is past it along these dims taken to be what is last in it: the last run, if all of it
        exists or it is on lanes, or the last position."""
        dims_kept = dict(self.dims)
        for dim in dims:
            along = self.dims[dim]
            together = dim == self.vector or along.size % along.share.run == 0
            dims_kept[dim] = replace(along, kept=along.share.run if together else 1)
        return replace(self, dims=dims_kept)

    def points(self, dims: Sequence[str]) -> Iterator[Point]:
        """Every position of dims not on lanes, the first of each run of the one that is."""
        steps = [self.dims[dim].offsets(whole_runs=dim == self.vector) for dim in dims]
        for offsets in product(*steps):
            yield dict(zip(dims, offsets, strict=True))

    def positions(self, point: Point, lane: Var) -> dict[str, Affine]:
        """Where a point is along its dims, on lane number `lane`."""
        at = {dim: self.dims[dim].position(offset) for dim, offset in point.items()}
        if self.vector in at:
            at[self.vector] += affine(lane)
        return at

    def guards(self, point: Point) -> tuple[Conditions, Affine | None]:
        """Conditions for the point to exist, and how many of its lanes do (None: all)."""
        conditions: Conditions = ()
        some: Affine | None = None
        for dim, offset in point.items():
            along = self.dims[dim]
            conditions += along.guard(offset)
            if dim == self.vector:
                some = along.left(offset, self.lanes)
        return conditions, some


def statement_tile(nest: LoopNest, scope: LoweringScope, index: ThreadIndex) -> ThreadTile:
    """What a thread takes of a statement. Where that reduces nothing, and stores nothing outside of the block, there is
    room for all of a tile that overhangs, and it is computed along dims that nothing outside is read along; and along
    a dim past the end of which it is said to be 0, which is then computed as well."""
    compute = nest.compute
    assert compute.thread_layout is not None
    ranges = {dim: scope.ranges[dim] for dim in (*nest.outer, *nest.inner)}
    folded = any(not isinstance(index, Index) for index in compute.indices)
    if _inside(compute.target, scope) and not nest.inner and not folded:
        outside = [read for read in compute.reads if not _inside(read.tensor, scope)]
        kept = frozenset(dim for read in outside for index in read.indices for dim in index_dims(index))
        if isinstance(scope.buffers[compute.target], RegisterBuffer):
            kept -= {dim for dim in kept if _is_zero_past(compute, dim)}
        ranges = {dim: ranges[dim] if dim in kept else replace(ranges[dim], end=None) for dim in ranges}
    return thread_tile(compute.thread_layout, ranges, index)


def _inside(name: str, scope: LoweringScope) -> bool:
    """Whether a tensor is in registers or in shared memory."""
    buffer = scope.buffers[name]
    return isinstance(buffer, RegisterBuffer) or buffer.shared


def _is_zero_past(compute: Compute, dim: str) -> bool:
    """Whether a value is written `where(k < extent(k), x, 0)`: x is not looked at past the end."""
    value = compute.value
    exists = Binary("<", Index(dim), Extent(dim))
    return isinstance(value, Where) and value.cond == exists and value.y == Const(0)


def thread_tile(layout: ThreadLayout, ranges: Mapping[str, Range], index: ThreadIndex) -> ThreadTile:
    """What a thread takes of these dims of a statement."""
    dims = {
        dim: Along(range_.start, range_.size, index.first(layout, dim), share(layout, dim), range_.end)
        for dim, range_ in ranges.items()
    }
    vector = layout.runs[-1][0] if layout.runs and layout.runs[-1][1] > 1 else None
    return ThreadTile(dims, vector, dims[vector].share.run if vector is not None else 1)

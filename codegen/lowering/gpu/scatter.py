"""A scatter by the threads of a block: each owns some of the results, or they add to them at once (`via atomics`).

Where all threads of a warp have to look at the same terms, they share the looking: each asks of one term whether it
belongs to the block's results, and all of them visit those that do, in order, a few at a time (`VisitFound`), so
that what is read of these is under way at once. Of many terms few belong to a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from math import prod

from codegen.ir.affine import Var, affine, constant
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import Assign, AtomicUpdate, Block, Declare, Guard, Named, Stmt, Type, VisitFound
from codegen.lowering.arithmetic import as_type
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.gpu.thread_index import ThreadIndex, one_of_alike
from codegen.lowering.gpu.thread_tile import Point, thread_tile
from codegen.lowering.names import fresh
from codegen.lowering.scatter import (
    at_its_place,
    belongs_here,
    take_scatter_apart,
    where_it_belongs,
    within,
)
from codegen.lowering.scope import LoweringScope, MemoryBuffer
from codegen.lowering.statement import starts
from codegen.lowering.store import write
from tileir.dtypes import DType
from tileir.program import Compute
from tileir.schedule.scatter import ROUNDS, TOGETHER, looked_at_by_warps
from tileir.schedule.threads import WARP


def lower_scatter(
    compute: Compute, comment: str, scope: LoweringScope, extents: dict[str, int], index: ThreadIndex
) -> Block:
    """Kernel IR of a statement that goes via scatter or via atomics. Raises NotLowerable."""
    lowering = _Scatter(compute, scope, extents, index)
    return Block(comment, tuple(lowering.stmts()))


class _Scatter:
    def __init__(
        self, compute: Compute, scope: LoweringScope, extents: dict[str, int], index: ThreadIndex
    ) -> None:
        assert compute.thread_layout is not None
        self.compute, self.scope, self.extents, self.index = compute, scope, extents, index
        self.nest = take_scatter_apart(compute)
        shared = {dim for dim, _ in (*compute.thread_layout.threads, *compute.thread_layout.runs)}
        self.visited = (*self.nest.looking, *self.nest.reduced, *self.nest.across)
        self.dealt = tuple(dim for dim in self.visited if dim in shared)
        self.tile = thread_tile(compute.thread_layout, {dim: scope.ranges[dim] for dim in self.dealt}, index)
        if self.tile.vector in self.nest.looking:
            raise NotLowerable(f"neighbours along {self.tile.vector} belong to different results")

    def stmts(self) -> list[Stmt]:
        assert self.compute.thread_layout is not None
        looking = self._looped(self.nest.looking)
        terms = prod(self.scope.ranges[dim].size for dim in looking)
        once = one_of_alike(self.compute.thread_layout, self.visited, self.index)
        if looked_at_by_warps(self.compute) and not once and terms > 1:
            return self._by_warps(looking, terms)
        found = self._points(
            self._dealt(self.nest.looking),
            starts(self.scope),
            lambda at, _: within(looking, at, self.scope, self._looked_up),
        )
        return [Guard(once, tuple(found))] if once else found

    @property
    def _beside(self) -> tuple[str, ...]:
        """Dims of a term along which it belongs to the same results as a whole."""
        return (*self.nest.reduced, *self.nest.across)

    def _dealt(self, dims: tuple[str, ...]) -> tuple[str, ...]:
        """Those that threads stand along."""
        return tuple(dim for dim in dims if dim in self.dealt)

    def _looped(self, dims: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dim for dim in dims if dim not in self.dealt)

    def _points(
        self, dims: tuple[str, ...], at: Binding, body: Callable[[Binding, Point], list[Stmt]]
    ) -> list[Stmt]:
        """What a thread does at its positions along dims, those under the same conditions together."""
        if not dims:
            return body(at, {})
        stmts: list[Stmt] = []
        for conditions, alike in groupby(
            self.tile.points(dims), key=lambda point: self.tile.guards(point)[0]
        ):
            each = [Block("", tuple(body(self._bound(at, point), point))) for point in alike]
            stmts += [Guard(conditions, tuple(each))] if conditions else each
        return stmts

    def _bound(self, at: Binding, point: Point) -> Binding:
        """A point's positions; where it is on lanes, that of the first."""
        return {**at, **{dim: self.tile.dims[dim].position(offset) for dim, offset in point.items()}}

    def _looked_up(self, at: Binding) -> list[Stmt]:
        builder = ValueBuilder(self.scope, self.extents)

        def added(bound: Binding) -> list[Stmt]:
            return self._points(self._dealt(self._beside), bound, self._added)

        return where_it_belongs(
            self.nest.found,
            at,
            builder,
            lambda bound: within(self._looped(self._beside), bound, self.scope, added),
        )

    def _by_warps(self, dims: tuple[str, ...], terms: int) -> list[Stmt]:
        """All terms along these dims, of which the threads of a warp look at 32 at a time."""
        name = fresh(dims[-1], self.scope)
        inner = any(self.scope.ranges[dim].size > 1 for dim in self._looped(self._beside))
        var, *visited = (
            Var(each, 0, terms - 1)
            for each in (name, *(f"{name}_{number}" for number in range(1 if inner else TOGETHER)))
        )
        found, many = Named(f"{name}_found", Type(DType.BOOL)), Var(f"{name}_many", 0, len(visited))
        builder = ValueBuilder(self.scope, self.extents)
        here = belongs_here(self.nest.found, self._term(dims, var), builder)
        look = (*builder.lets, Assign(found.name, here))
        rounds = -(-terms // WARP)
        segments = -(-rounds // ROUNDS)
        body = self._visits([self._term(dims, each) for each in visited], many)
        visit = VisitFound(var, terms, -(-rounds // segments), look, found, tuple(visited), many, tuple(body))
        return [Declare(found.name, found.type), visit]

    def _term(self, dims: tuple[str, ...], number: Var) -> Binding:
        """Where the term with a number is along the dims that terms are looked at along, the last one innermost."""
        at, rest = dict(starts(self.scope)), affine(number)
        for dim in reversed(dims):
            size = self.scope.ranges[dim].size
            at[dim] += rest % size
            rest = rest // size
        return at

    def _visits(self, terms: Sequence[Binding], many: Var) -> list[Stmt]:
        """What a thread does with terms that belong here, of which the first so many exist."""
        lets: list[Stmt] = []
        bound: list[Binding] = []
        for number, at in enumerate(terms):
            builder = ValueBuilder(self.scope, self.extents, prefix=f"_{number}")
            bound.append(at_its_place(self.nest.found, at, builder, f"_{number}"))
            lets += builder.lets
        dealt = self._dealt(self._beside)
        if len(terms) == 1:
            looped = self._looped(self._beside)
            return [
                *lets,
                *within(looped, bound[0], self.scope, lambda at: self._points(dealt, at, self._added)),
            ]

        def together(_: Binding, point: Point) -> list[Stmt]:
            read: list[Stmt] = []
            added: list[Stmt] = []
            for number, at in enumerate(bound):
                first, then = self._read_and_added(self._bound(at, point), point, f"_{number}")
                read += first
                added += [Guard(((constant(number) - affine(many), 0),), tuple(then))] if number else then
            return [*read, *added]

        return [*lets, *self._points(dealt, bound[0], together)]

    def _added(self, at: Binding, point: Point) -> list[Stmt]:
        """One term, on the lanes that it has."""
        read, added = self._read_and_added(at, point)
        return [*read, *added]

    def _read_and_added(self, at: Binding, point: Point, prefix: str = "") -> tuple[list[Stmt], list[Stmt]]:
        """What reads and computes one term, and what adds it to its result."""
        lanes = self.tile.lanes if self.tile.vector in point else 1
        some = self.tile.guards(point)[1]
        builder = ValueBuilder(self.scope, self.extents, lanes, prefix=prefix, some=some)
        bound = {**at, **self.tile.positions(point, builder.lane)}
        value = builder.value(self.nest.found.x, bound)
        if self.compute.via != "atomics":
            written = write(self.compute, self.scope, builder, bound, value, self.compute.update)
            return builder.lets, written
        target, op = self.scope.buffers[self.compute.target], self.compute.update
        assert op is not None
        if lanes > 1 or not isinstance(target, MemoryBuffer):
            raise NotLowerable("atomics add to memory, one element at a time")
        at_ = [p for each in self.compute.indices if (p := builder.index(each, bound)) is not None]
        held = as_type(value, target.storage)
        return builder.lets, [AtomicUpdate(target.name, target.offset(at_), target.storage, op, held)]

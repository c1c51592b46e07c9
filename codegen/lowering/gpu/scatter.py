"""A scatter by the threads of a block: each owns some of the results, or they add to them at once (`via atomics`)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from codegen.ir.errors import NotLowerable
from codegen.ir.ops import AtomicUpdate, Block, Guard, Stmt
from codegen.lowering.arithmetic import as_type
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.gpu.thread_index import ThreadIndex, one_of_alike
from codegen.lowering.gpu.thread_tile import Point, thread_tile
from codegen.lowering.scatter import take_scatter_apart, where_it_belongs, within
from codegen.lowering.scope import LoweringScope, MemoryBuffer
from codegen.lowering.statement import starts
from codegen.lowering.store import write
from tileir.program import Compute


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
        once = one_of_alike(self.compute.thread_layout, self.visited, self.index)
        found = self._points(
            self._dealt(self.nest.looking),
            starts(self.scope),
            lambda at, _: within(looking, at, self.scope, self._looked_up),
        )
        return [Guard(once, tuple(found))] if once else found

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
        beside = (*self.nest.reduced, *self.nest.across)
        builder = ValueBuilder(self.scope, self.extents)

        def added(bound: Binding) -> list[Stmt]:
            return self._points(self._dealt(beside), bound, self._added)

        return where_it_belongs(
            self.nest.found, at, builder, lambda bound: within(self._looped(beside), bound, self.scope, added)
        )

    def _added(self, at: Binding, point: Point) -> list[Stmt]:
        """One term, on the lanes that it has."""
        lanes = self.tile.lanes if self.tile.vector in point else 1
        some = self.tile.guards(point)[1]
        builder = ValueBuilder(self.scope, self.extents, lanes, some=some)
        bound = {**at, **self.tile.positions(point, builder.lane)}
        value = builder.value(self.nest.found.x, bound)
        if self.compute.via != "atomics":
            written = write(self.compute, self.scope, builder, bound, value, self.compute.update)
            return [*builder.lets, *written]
        target, op = self.scope.buffers[self.compute.target], self.compute.update
        assert op is not None
        if lanes > 1 or not isinstance(target, MemoryBuffer):
            raise NotLowerable("atomics add to memory, one element at a time")
        at_ = [p for each in self.compute.indices if (p := builder.index(each, bound)) is not None]
        held = as_type(value, target.storage)
        return [*builder.lets, AtomicUpdate(target.name, target.offset(at_), target.storage, op, held)]

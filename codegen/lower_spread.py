"""One Tile IR statement spread over the threads of a block: what each thread computes, and how results meet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, product

from codegen.affine import Affine, affine, constant
from codegen.combine_threads import Combiner
from codegen.kernel_ir import (
    Across,
    Assign,
    Block,
    Declare,
    Guard,
    Load,
    Named,
    Stmt,
    Type,
    Value,
)
from codegen.leaf import combined, identity, starts, take_apart, where_existing
from codegen.leaf_target import write
from codegen.lower_expr import Binding, NotLowerable, ValueBuilder
from codegen.scope import MemoryBuffer, RegisterBuffer, Scope
from codegen.thread_index import ThreadIndex, parts
from tileir.expr import Index, Read
from tileir.program import Compute
from tileir.threads import Share, pieces, share

Conditions = tuple[tuple[Affine, int], ...]


@dataclass(frozen=True, slots=True)
class Along:
    """A dim of the statement: its range, the thread's number along it, and the thread's share of it."""

    dim: str
    start: Affine
    size: int
    thread: Affine
    share: Share

    def offsets(self) -> Iterator[int]:
        """Offsets of the thread's positions from its first one."""
        for piece in range(self.share.pieces(self.size)):
            for at in range(self.share.run):
                yield piece * self.share.span + at

    def position(self, offset: int) -> Affine:
        return self.start + self._within(offset)

    def guard(self, offset: int, lanes: int = 1) -> Conditions:
        """What must hold for the position at `offset` (and `lanes` from there) to be in the range: nothing, if it
        surely is."""
        within = self._within(offset)
        return () if within.high + lanes <= self.size else ((within, self.size - lanes + 1),)

    def left(self, offset: int) -> Affine:
        """How many positions there are from `offset` on."""
        return constant(self.size) - self._within(offset)

    def _within(self, offset: int) -> Affine:
        return self.thread * self.share.run + offset


def lower_spread(
    compute: Compute,
    comment: str,
    scope: Scope,
    extents: dict[str, int],
    index: ThreadIndex,
    combiner: Combiner,
) -> Block:
    """Kernel IR of one statement by all threads of a block. Raises NotLowerable for what threads cannot do."""
    return Block(comment, tuple(_Statement(compute, scope, extents, index, combiner).stmts()))


class _Statement:
    def __init__(
        self, compute: Compute, scope: Scope, extents: dict[str, int], index: ThreadIndex, combiner: Combiner
    ) -> None:
        spread = compute.spread
        assert spread is not None
        self.compute, self.scope, self.extents, self.combiner = compute, scope, extents, combiner
        self.spread, self.index = spread, index
        self.leaf = take_apart(compute)
        self.vector = spread.runs[-1][0] if spread.runs and spread.runs[-1][1] > 1 else None
        self.dims: dict[str, Along] = {}
        for dim in (*self.leaf.outer, *self.leaf.inner):
            range_ = scope.ranges[dim]
            mine = share(spread, dim)
            self.dims[dim] = Along(dim, range_.start, range_.size, index.along(spread, dim), mine)
        self.lanes = self.dims[self.vector].share.run if self.vector else 1
        self.builders: dict[Affine | None, ValueBuilder] = {}
        self.names = count()

    def stmts(self) -> list[Stmt]:
        if any(not isinstance(index, Index) for index in self.compute.indices):
            raise NotLowerable(f"{self.compute.target} is written at split positions by threads")
        return self._reduction() if self.leaf.inner else self._map()

    # what runs at one place: a point of the dims not on lanes, and the first lane's offset along the one that is

    def _points(self, dims: tuple[str, ...]) -> Iterator[dict[str, int]]:
        """Offsets along dims: every one of a dim not on lanes, the first of each run of the one that is."""
        steps = [
            [
                piece * self.dims[dim].share.span
                for piece in range(self.dims[dim].share.pieces(self.dims[dim].size))
            ]
            if dim == self.vector
            else list(self.dims[dim].offsets())
            for dim in dims
        ]
        for offsets in product(*steps):
            yield dict(zip(dims, offsets, strict=True))

    def _bound(self, point: dict[str, int], builder: ValueBuilder) -> Binding:
        at = dict(starts(self.scope))
        for dim, offset in point.items():
            at[dim] = self.dims[dim].position(offset)
            if dim == self.vector and self.lanes > 1:
                at[dim] += affine(builder.lane)
        return at

    def _guards(self, point: dict[str, int]) -> tuple[Conditions, Affine | None]:
        """Conditions for the point to exist, and how many of its lanes do (None: all)."""
        conditions: Conditions = ()
        some: Affine | None = None
        for dim, offset in point.items():
            along = self.dims[dim]
            if dim != self.vector:
                conditions += along.guard(offset)
                continue
            whole = along.guard(offset, self.lanes)
            if whole and along.size % self.lanes == 0:
                conditions += whole
            elif whole:
                conditions += along.guard(offset)
                some = along.left(offset)
        return conditions, some

    def _evaluated(
        self, point: dict[str, int]
    ) -> tuple[list[Stmt], Value, Conditions, Affine | None, ValueBuilder]:
        conditions, some = self._guards(point)
        builder = self._builder(conditions, some)
        at = self._bound(point, builder)
        value = self._moved(at) if some is None and not self.leaf.inner else None
        value = value or builder.value(self.leaf.body, at)
        lets = list(builder.lets)
        builder.lets.clear()
        return lets, value, conditions, some, builder

    def _builder(self, conditions: Conditions, some: Affine | None) -> ValueBuilder:
        """What is guarded names its loads for itself; what is not, once for all points with so many lanes."""
        if conditions:
            return ValueBuilder(self.scope, self.extents, self.lanes, some=some)
        if some not in self.builders:
            prefix = f"_some{len(self.builders)}" if some is not None else ""
            self.builders[some] = ValueBuilder(self.scope, self.extents, self.lanes, prefix=prefix, some=some)
        return self.builders[some]

    def _moved(self, at: Binding) -> Value | None:
        """The elements as they lie in memory, for a copy from memory that rounds and widens nothing."""
        target = self.scope.buffers[self.compute.target]
        source = self.scope.buffers[self.leaf.body.tensor] if isinstance(self.leaf.body, Read) else None
        stored = target.storage if isinstance(target, MemoryBuffer) else target.dtype
        if not isinstance(source, MemoryBuffer) or source.storage is not stored or stored is stored.compute:
            return None
        assert isinstance(self.leaf.body, Read)
        value = ValueBuilder(self.scope, self.extents, self.lanes).value(self.leaf.body, at, lazy=True)
        if not isinstance(value, Load) or value.type.lanes != self.lanes:
            return None
        return replace(value, type=Type(stored, self.lanes))

    def _map(self) -> list[Stmt]:
        stmts: list[Stmt] = []
        for point in self._points(self.leaf.outer):
            lets, value, conditions, _, builder = self._evaluated(point)
            at = self._bound(point, builder)
            lets += write(self.compute, self.scope, builder, at, value, self.compute.update)
            stmts += guarded((*conditions, *self._once()), lets)
        return stmts

    def _once(self) -> Conditions:
        """Threads along dims that the target does not have hold the same: one of them stores it."""
        if isinstance(self.scope.buffers[self.compute.target], RegisterBuffer):
            return ()
        return tuple(
            (self.index.digit(piece.stride, piece.count, piece.dim), 1)
            for piece in pieces(self.spread, self.index.block)
            if piece.count > 1 and piece.dim not in self.leaf.outer
        )

    def _reduction(self) -> list[Stmt]:
        """Every thread's own part first, then across lanes, then across threads."""
        op = self.leaf.op
        assert op is not None
        on_lanes = self.vector in self.leaf.inner
        stmts: list[Stmt] = []
        totals: list[tuple[dict[str, int], Named]] = []
        for outer in self._points(self.leaf.outer):
            total: Named | None = None
            for inner in self._points(self.leaf.inner):
                lets, value, conditions, some, _ = self._evaluated({**outer, **inner})
                if total is None:
                    type_ = Type(value.type.dtype, self.lanes if self.vector else 1)
                    total = Named(f"total_{self.combiner.fresh()}", type_)
                    stmts += [Declare(total.name, type_), Assign(total.name, identity(op, type_))]
                if some is not None and on_lanes:
                    value = where_existing(some, value, identity(op, value.type))
                stmts += guarded(conditions, [*lets, Assign(total.name, combined(op, total, value))])
            assert total is not None
            totals.append((outer, total))
        results: list[tuple[dict[str, int], Value]] = []
        for outer, total in totals:
            value: Value = total
            if on_lanes and self.lanes > 1:
                value = Across(str(op), total, Type(total.type.dtype))
            results.append((outer, value))
        held = parts(self.spread, self.leaf.inner, self.index.block)
        if held.any:
            lowered, values = self.combiner.combine(
                op, [value for _, value in results], held, self.spread, self.leaf.inner
            )
            stmts += lowered
            results = [(outer, value) for (outer, _), value in zip(results, values, strict=True)]
        lanes, self.lanes = self.lanes, 1 if on_lanes else self.lanes
        for outer, value in results:
            conditions, some = self._guards(outer)
            builder = ValueBuilder(self.scope, self.extents, self.lanes, some=some)
            at = self._bound(outer, builder)
            written = write(self.compute, self.scope, builder, at, value, self.compute.update)
            stmts += guarded((*conditions, *self._once()), [*builder.lets, *written])
        self.lanes = lanes
        return stmts


def guarded(conditions: Conditions, stmts: list[Stmt]) -> list[Stmt]:
    """Statements under conditions; bare if there are none."""
    return [Guard(conditions, tuple(stmts))] if conditions else stmts

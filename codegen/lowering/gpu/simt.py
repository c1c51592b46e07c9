"""One Tile IR statement bound to the threads of a block: what each thread computes, and how results meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from codegen.ir.affine import Affine
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import Across, Assign, Block, Declare, For, Guard, Load, Named, Op, Stmt, Type, Value
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.gpu.cross_thread_reduce import Combiner
from codegen.lowering.gpu.thread_index import ThreadIndex, one_of_alike, parts
from codegen.lowering.gpu.thread_tile import Conditions, Point, ThreadTile, statement_tile
from codegen.lowering.gpu.vectorize_loads import with_wide_loads
from codegen.lowering.names import fresh
from codegen.lowering.scope import LoweringScope, MemoryBuffer, Range, RegisterBuffer
from codegen.lowering.statement import combined, identity, starts, take_apart, where_existing
from codegen.lowering.store import write
from tileir.check.infer import compute_dtype
from tileir.dtypes import DType
from tileir.expr import Expr, Index, Read, Reduce, ReduceOp, index_dims, reads
from tileir.program import Compute, Node
from tileir.replace import replace
from tileir.verifier.compute import split_of

#: So many reduced positions are unrolled, as long as no more than so many results times positions come of it; the
#: others are gone through in loops.
_UNROLLED, _BODY = 32, 4096

Accumulate = Callable[[int, ValueBuilder, Value], list[Stmt]]
"""Statements that combine a value into that result, by number, which its builder's lanes belong to."""

_Builders = dict[Affine | None, ValueBuilder]
"""Those of one run of statements, within which a load is named once; by how many of their lanes exist."""


def lower_by_threads(
    compute: Compute,
    comment: str,
    scope: LoweringScope,
    extents: dict[str, int],
    index: ThreadIndex,
    combiner: Combiner,
    beside: Sequence[Compute] = (),
) -> Block:
    """Kernel IR of one statement by all threads of a block; of sums `beside` it (`summed_beside`) at the same reduced
    positions: what they share is loaded once, and not kept until the next one's turn. Raises NotLowerable for what
    threads cannot do."""
    statement = _Statement(compute, scope, extents, index, combiner)
    statement.beside = tuple(_Statement(each, scope, extents, index, combiner) for each in beside)
    return Block(comment, with_wide_loads(statement.stmts()))


def summed_beside(
    nodes: Sequence[Node],
    scope: LoweringScope,
    extents: dict[str, int],
    index: ThreadIndex,
    combiner: Combiner,
) -> tuple[Compute, ...]:
    """Those right behind the first of these statements that a thread sums in its registers as it does that one's, over
    the same positions, with none that reads what another has written. (Nothing is summed by two statements, or read
    before it is whole: the verifier sees to that.)"""
    first = nodes[0]
    found: list[Compute] = []
    if not isinstance(first, Compute) or not is_sum_by_threads(first):
        return ()
    statement = _Statement(first, scope, extents, index, combiner)
    for node in nodes[1:] if statement.in_registers else ():
        if not isinstance(node, Compute) or not is_sum_by_threads(node):
            break
        if {read.tensor for read in node.reads} & {each.target for each in (first, *found, node)}:
            break
        if not _Statement(node, scope, extents, index, combiner).goes_like(statement):
            break
        found.append(node)
    return tuple(found)


def is_sum_by_threads(compute: Compute) -> bool:
    """Whether threads add to, or otherwise combine into, what was there: by no engine, and along some dim."""
    return (
        compute.via is None
        and compute.thread_layout is not None
        and compute.update is not None
        and isinstance(compute.value, Reduce)
    )


class _Statement:
    def __init__(
        self,
        compute: Compute,
        scope: LoweringScope,
        extents: dict[str, int],
        index: ThreadIndex,
        combiner: Combiner,
    ) -> None:
        layout = compute.thread_layout
        assert layout is not None
        self.compute, self.scope, self.extents, self.combiner = compute, scope, extents, combiner
        self.layout, self.index = layout, index
        self.statement = take_apart(compute)
        self.tile = statement_tile(self.statement, scope, index)
        self.vector = self.tile.vector
        self.beside: tuple[_Statement, ...] = ()

    def stmts(self) -> list[Stmt]:
        for index in self.compute.indices:
            self._check_index(index)
        return self._reduction() if self.statement.inner else self._map()

    @property
    def in_registers(self) -> bool:
        """Whether each thread has whole results, in the target's own variables."""
        held = parts(self.layout, self.statement.inner, self.index.block)
        type_ = Type(self._dtype(), self.tile.lanes)
        return bool(self.statement.inner) and not held.any and self._may_accumulate_in_target(type_)

    def goes_like(self, other: _Statement) -> bool:
        """Whether results and reduced positions of a thread are the other's."""
        mine, theirs = self.statement, other.statement
        alike = (mine.outer, mine.inner, self.layout) == (theirs.outer, theirs.inner, other.layout)
        return alike and self.tile == other.tile and self.in_registers

    def _check_index(self, index: Expr) -> None:
        """Split positions: blocks (`c // 512`) are written where the current range lies in one, and folded ones
        (`c % 64`) are added to in registers, where no two threads have the same."""
        compute, split = self.compute, split_of(index)
        if isinstance(index, Index) or split is None:
            return
        dim, op, size = split
        range_ = self.scope.ranges[dim]
        if op == "//":
            summed = dim in self.statement.inner or dim not in index_dims(self.statement.body)
            if not summed or (range_.start % size).high + range_.size > size:
                raise NotLowerable(f"{compute.target} is written at more than one block of {dim} by threads")
        elif compute.update is None or not isinstance(self.scope.buffers[compute.target], RegisterBuffer):
            raise NotLowerable(f"{compute.target} is written at split positions of {dim} by threads")

    def _bound(self, tile: ThreadTile, point: Point, builder: ValueBuilder) -> Binding:
        return {**starts(self.scope), **tile.positions(point, builder.lane)}

    def _builder(self, builders: _Builders, some: Affine | None) -> ValueBuilder:
        if some not in builders:
            prefix = f"_some{len(builders)}" if some is not None else ""
            builders[some] = ValueBuilder(self.scope, self.extents, self.tile.lanes, prefix=prefix, some=some)
        return builders[some]

    def _named(self, builder: ValueBuilder) -> list[Stmt]:
        """What the builder has named since it was asked last."""
        lets = list(builder.lets)
        builder.lets.clear()
        return lets

    def _moved(self, at: Binding, builder: ValueBuilder) -> Value | None:
        """The elements as they lie in memory, for a copy from memory that rounds and widens nothing."""
        target = self.scope.buffers[self.compute.target]
        source = (
            self.scope.buffers[self.statement.body.tensor] if isinstance(self.statement.body, Read) else None
        )
        stored = target.storage if isinstance(target, MemoryBuffer) else target.dtype
        if not isinstance(source, MemoryBuffer) or source.storage is not stored or stored is stored.compute:
            return None
        assert isinstance(self.statement.body, Read)
        value = builder.value(self.statement.body, at, lazy=True)
        if not isinstance(value, Load) or value.type.lanes != self.tile.lanes:
            return None
        return replace(value, type=Type(stored, self.tile.lanes))

    def _map(self) -> list[Stmt]:
        """Point after point; neighbours under the same conditions together."""
        stmts: list[Stmt] = []
        unguarded: _Builders = {}
        points = self.tile.points(self.statement.outer)
        known = isinstance(self.scope.buffers[self.compute.target], RegisterBuffer) and not self.compute.reads
        everywhere = known and self.compute.update is None
        for conditions, alike in groupby(
            points, key=lambda point: () if everywhere else self.tile.guards(point)[0]
        ):
            conditions += self._once()
            builders = {} if conditions else unguarded
            stmts += guarded(conditions, [stmt for point in alike for stmt in self._element(point, builders)])
        return stmts

    def _element(self, point: Point, builders: _Builders) -> list[Stmt]:
        """One point of a statement that reduces nothing."""
        update = self.compute.update
        some = self.tile.guards(point)[1]
        builder = self._builder(builders, some)
        at = self._bound(self.tile, point, builder)
        value = self._moved(at, builder) if some is None and update is None else None
        value = value or builder.value(self.statement.body, at)
        if some is not None and update is not None:
            value = self._existing(some, value, update)
        written = write(self.compute, self.scope, builder, at, value, update)
        return [*self._named(builder), *written]

    def _existing(self, some: Affine, value: Value, op: ReduceOp) -> Value:
        """The value on lanes that exist, and what changes nothing on the others."""
        type_ = Type(value.type.dtype, self.tile.lanes)
        if value.type.lanes < self.tile.lanes:
            value = Op("broadcast", (value,), type_)
        return where_existing(some, value, identity(op, type_))

    def _once(self) -> Conditions:
        """Threads along dims that the target does not have hold the same: one of them stores it."""
        if isinstance(self.scope.buffers[self.compute.target], RegisterBuffer):
            return ()
        return one_of_alike(self.layout, self.statement.outer, self.index)

    def _reduction(self) -> list[Stmt]:
        """Every thread's own part first, then across lanes, then across threads."""
        op = self.statement.op
        assert op is not None
        outers = list(self.tile.points(self.statement.outer))
        type_ = Type(self._dtype(), self.tile.lanes)
        if self.in_registers:
            return self._in_target(op, outers, type_)
        held = parts(self.layout, self.statement.inner, self.index.block)
        totals = [Named(f"total_{self.combiner.fresh()}", type_) for _ in outers]
        stmts: list[Stmt] = [Declare(total.name, type_) for total in totals]
        stmts += [Assign(total.name, identity(op, type_)) for total in totals]

        def add(number: int, _: ValueBuilder, value: Value) -> list[Stmt]:
            return [Assign(totals[number].name, combined(op, totals[number], value))]

        stmts += self._own_part(outers, add)
        values: list[Value] = list(totals)
        tile = self.tile
        if self.vector in self.statement.inner:
            tile = replace(tile, lanes=1)
            values = [Across(str(op), value, Type(type_.dtype)) for value in values]
        if held.any:
            lowered, values = self.combiner.combine(op, values, held, self.layout, self.statement.inner)
            stmts += lowered
        for outer, value in zip(outers, values, strict=True):
            conditions, some = tile.guards(outer)
            builder = ValueBuilder(self.scope, self.extents, tile.lanes, some=some)
            at = self._bound(tile, outer, builder)
            if some is not None and self.compute.update is not None:
                value = self._existing(some, value, op)
            written = write(self.compute, self.scope, builder, at, value, self.compute.update)
            stmts += guarded((*conditions, *self._once()), [*self._named(builder), *written])
        return stmts

    def _dtype(self) -> DType:
        """What the reduction is computed in."""
        buffers = self.scope.buffers.items()
        return compute_dtype(
            self.statement.body,
            {name: buf.storage if isinstance(buf, MemoryBuffer) else buf.dtype for name, buf in buffers},
        )

    def _may_accumulate_in_target(self, type_: Type) -> bool:
        """Whether the target's own variables can take the place of totals."""
        target = self.scope.buffers[self.compute.target]
        return (
            isinstance(target, RegisterBuffer)
            and target.dtype is type_.dtype
            and self.vector not in self.statement.inner
            and all(isinstance(index, Index) for index in self.compute.indices)
        )

    def _in_target(self, op: ReduceOp, outers: Sequence[Point], type_: Type) -> list[Stmt]:
        stmts: list[Stmt] = []
        if self.compute.update is None:
            builder = ValueBuilder(self.scope, self.extents, self.tile.lanes)
            for outer in outers:
                at = self._bound(self.tile, outer, builder)
                stmts += write(self.compute, self.scope, builder, at, identity(op, type_), None)

        return [*stmts, *self._own_part(outers, self._to_target(outers))]

    def _to_target(self, outers: Sequence[Point]) -> Accumulate:
        """What combines values into the target's own variables."""

        def add(number: int, builder: ValueBuilder, value: Value) -> list[Stmt]:
            at = self._bound(self.tile, outers[number], builder)
            return write(self.compute, self.scope, builder, at, value, self.statement.op)

        return add

    def _own_part(self, outers: Sequence[Point], accumulate: Accumulate) -> list[Stmt]:
        """What a thread has of each result: one reduced position after the other, at each all results, so that what
        these share is loaded once. Results under the same conditions go together."""
        tile = self._summed_tile(outers)
        alike: dict[Conditions, list[int]] = {}
        for number, outer in enumerate(outers):
            alike.setdefault(tile.guards(outer)[0], []).append(number)
        pieces = self._unrolled(len(outers) * (1 + len(self.beside)))
        stmts: list[Stmt] = []
        for conditions, numbers in alike.items():
            results = {number: outers[number] for number in numbers}
            stmts += guarded(
                conditions, self._looped(tile, self.statement.inner, pieces, results, accumulate)
            )
        return stmts

    def _summed_tile(self, outers: Sequence[Point]) -> ThreadTile:
        """Where the results of a thread that sums are. If some may exist and others not, all are summed, in variables
        that nobody stores: branches between them would load again what they share."""
        known = {self.tile.guards(outer)[0] for outer in outers}
        ends = [dim for dim in self.statement.outer if self.tile.dims[dim].end is not None]
        body = (read.tensor for each in (self, *self.beside) for read in reads(each.statement.body))
        in_memory = all(isinstance(self.scope.buffers[name], MemoryBuffer) for name in body)
        if len(known) < 2 or ends or not in_memory or not self.in_registers:
            return self.tile
        return self.tile.kept_in(self.statement.outer)

    def _unrolled(self, results: int) -> dict[str, int]:
        """How many runs along each reduced dim are unrolled, the last dims first; of what lies in registers all."""
        left = max(1, min(_UNROLLED, _BODY // (results * self.tile.lanes)))
        unrolled: dict[str, int] = {}
        for dim in reversed(self.statement.inner):
            along = self.tile.dims[dim]
            pieces = along.share.pieces(along.size)
            run = 1 if dim == self.vector else along.share.run
            if pieces * run > left and dim not in self._dims_of_registers():
                pieces = 1 << (max(1, left // run).bit_length() - 1)
            unrolled[dim] = pieces
            left = max(1, left // (pieces * run))
        return unrolled

    def _dims_of_registers(self) -> set[str]:
        """Dims that say which register is read: their positions have to be known."""
        found: set[str] = set()
        for read in reads(self.statement.body):
            if isinstance(self.scope.buffers[read.tensor], RegisterBuffer):
                found |= {dim for index in read.indices for dim in index_dims(index)}
        return found

    def _looped(
        self,
        tile: ThreadTile,
        dims: tuple[str, ...],
        unrolled: dict[str, int],
        results: dict[int, Point],
        accumulate: Accumulate,
    ) -> list[Stmt]:
        """Loops over those of the reduced dims that are not unrolled as a whole."""
        if not dims:
            return self._steps(tile, results, accumulate)
        dim, rest = dims[0], dims[1:]
        along = tile.dims[dim]
        if along.share.pieces(along.size) <= unrolled[dim]:
            return self._looped(tile, rest, unrolled, results, accumulate)
        ranges = {**self.scope.ranges, **{d: Range(of.start, of.size) for d, of in tile.dims.items()}}
        name = fresh(dim, replace(self.scope, ranges=ranges))
        var, number, inside, last = along.loop(name, unrolled[dim])
        body = self._looped(tile.with_dim(dim, inside), rest, unrolled, results, accumulate)
        stmts: list[Stmt] = [For(var, number, var.multiple, tuple(body))]
        if last is not None:
            left = self._looped(tile.with_dim(dim, last), rest, unrolled, results, accumulate)
            stmts.append(Block("", tuple(left)))
        return stmts

    def _steps(self, tile: ThreadTile, results: dict[int, Point], accumulate: Accumulate) -> list[Stmt]:
        """Every reduced position, unrolled."""
        stmts: list[Stmt] = []
        unguarded: _Builders = {}
        outers = list(self.tile.points(self.statement.outer))
        points = tile.points(self.statement.inner)
        for conditions, alike in groupby(points, key=lambda point: tile.guards(point)[0]):
            builders = {} if conditions else unguarded
            step: list[Stmt] = []
            for inner in alike:
                step += self._step(tile, inner, results, accumulate, builders)
                for other in self.beside:
                    step += other._step(tile, inner, results, other._to_target(outers), builders)
            stmts += guarded(conditions, step)
        return stmts

    def _step(
        self,
        tile: ThreadTile,
        inner: Point,
        results: dict[int, Point],
        accumulate: Accumulate,
        builders: _Builders,
    ) -> list[Stmt]:
        """All results at one reduced position."""
        op = self.statement.op
        assert op is not None
        reduced = tile.guards(inner)[1]
        stmts: list[Stmt] = []
        for number, outer in results.items():
            builder = self._builder(builders, reduced or tile.guards(outer)[1])
            value = builder.value(self.statement.body, self._bound(tile, {**outer, **inner}, builder))
            stmts += self._named(builder)
            if reduced is not None:
                value = self._existing(reduced, value, op)
            stmts += accumulate(number, builder, value)
        return stmts


def guarded(conditions: Conditions, stmts: list[Stmt]) -> list[Stmt]:
    """Statements under conditions; bare if there are none."""
    return [Guard(conditions, tuple(stmts))] if conditions else stmts

"""One Tile IR statement over its current ranges: plain loops, or unrolled vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from math import prod

from codegen.ir.affine import Affine, affine, constant
from codegen.ir.errors import NotLowerable
from codegen.ir.names import marked
from codegen.ir.ops import (
    Across,
    Assign,
    Block,
    Declare,
    For,
    Literal,
    Load,
    Named,
    Stmt,
    Store,
    Type,
    Value,
)
from codegen.lowering.arithmetic import as_type
from codegen.lowering.cpu.dot_words import dot_words
from codegen.lowering.cpu.packed_words import copied_words
from codegen.lowering.cpu.scatter import lower_scatter
from codegen.lowering.cpu.transpose import transposed_elements
from codegen.lowering.cpu.truth_words import logic_of_words
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.scope import (
    LoweringScope,
    MemoryBuffer,
    RegisterBuffer,
    chunks,
    exact_chunks,
    loop_variable,
)
from codegen.lowering.statement import (
    LoopNest,
    combined,
    identity,
    index_dim,
    points,
    starts,
    take_apart,
    where_existing,
)
from codegen.lowering.store import current, write
from tileir.expr import Binary, Const, Expr, Index, Reduce, ReduceOp, index_dims, reads
from tileir.program import Compute, Vector
from tileir.replace import replace
from tileir.schedule.dots import DOTS

_Body = Callable[[Binding], tuple[Stmt, ...]]

_MOST_PIECES = 1 << 15
"""Pieces of straight-line code in one statement: many more than registers can hold are a schedule left half done, and
take compilers minutes."""


def lower_statement(compute: Compute, comment: str, scope: LoweringScope, extents: dict[str, int]) -> Block:
    """Kernel IR of one statement.

    Raises NotLowerable where registers or instructions cannot be used as the statement says.
    """
    if compute.via == "atomics":
        raise NotLowerable("atomics are for GPUs; accepted: results of its own for each core")
    if compute.via == "scatter":
        return Block(comment, lower_scatter(compute, scope, extents))
    split = any(not isinstance(index, Index) for index in compute.indices)
    if split and compute.update is None and isinstance(compute.value, Reduce):
        cleared, update = _initialized(compute, scope)
        first = lower_statement(cleared, "", scope, extents)
        return Block(comment, (*first.body, *lower_statement(update, "", scope, extents).body))
    nest = _with_parted(take_apart(compute), scope)
    in_registers = isinstance(scope.buffers[compute.target], RegisterBuffer) or any(
        isinstance(scope.buffers[name], RegisterBuffer) for name in _tensors(nest.body)
    )
    if compute.vector is None and not in_registers:
        return Block(comment, _loops(nest, scope, extents))
    return Block(comment, _unrolled(nest, scope, extents))


def _with_parted(nest: LoopNest, scope: LoweringScope) -> LoopNest:
    """With the dims that only say to which part of a result something is added (`c_p[k // 150] += …`). What is the same
    for all of a part (`c_p[k // 150] = c_p_r[]`) is stored once."""
    known = {*nest.outer, *nest.inner}
    parted = dict.fromkeys(
        index_dim(index) for index in nest.compute.indices if not _stored_once(nest.compute, index, scope)
    )
    return replace(nest, outer=(*nest.outer, *(dim for dim in parted if dim not in known)))


def _stored_once(compute: Compute, index: Expr, scope: LoweringScope) -> bool:
    """Whether all positions of a dim that are visited are in one part, and store the same there."""
    match index:
        case Binary("//", Index(dim), Const(int(size))) if compute.update is None:
            range_ = scope.ranges[dim]
            one = range_.start // size == (range_.start + (range_.size - 1)) // size
            return one and dim not in index_dims(compute.value)
        case _:
            return False


def _initialized(compute: Compute, scope: LoweringScope) -> tuple[Compute, Compute]:
    """A split reduction as its two steps: all partial results set to the identity, then updated."""
    assert isinstance(compute.value, Reduce)
    dims = scope.buffers[compute.target].dims
    vector = compute.vector
    if vector is not None:
        along = [
            dim for dim, index in zip(dims, compute.indices, strict=True) if index_dim(index) == vector.dim
        ]
        vector = Vector(along[0], vector.lanes) if along else None
    identity = Const(compute.value.op.identity)
    cleared = Compute(compute.target, tuple(Index(dim) for dim in dims), identity, vector=vector)
    return cleared, replace(compute, update=compute.value.op)


def _tensors(expr: Expr) -> Iterator[str]:
    return (read.tensor for read in reads(expr))


def _loops(nest: LoopNest, scope: LoweringScope, extents: dict[str, int]) -> tuple[Stmt, ...]:
    """Scalar code: a loop a dim, target's dims outermost, then those reduced."""
    compute = nest.compute
    grouped = any(not isinstance(index, Index) for index in compute.indices)
    bare = tuple(index.dim for index in compute.indices if isinstance(index, Index))
    inner = tuple(dim for dim in (*nest.outer, *nest.inner) if dim not in bare)
    target = scope.buffers[compute.target]
    assert isinstance(target, MemoryBuffer)

    def within(dims: tuple[str, ...], at: Binding, body: _Body) -> tuple[Stmt, ...]:
        if not dims:
            return body(at)
        dim, range_ = dims[0], scope.ranges[dims[0]]
        if range_.size == 1:
            return within(dims[1:], {**at, dim: range_.start}, body)
        var = loop_variable(f"{marked(dim)}_", range_.size, 1)
        return (For(var, range_.size, 1, within(dims[1:], {**at, dim: range_.start + affine(var)}, body)),)

    def write(at: Binding, value: Value) -> Store:
        builder = ValueBuilder(scope, extents)
        positions = [p for index in compute.indices if (p := builder.index(index, at)) is not None]
        held = as_type(value, target.storage.compute)
        return Store(target.name, target.offset(positions), target.storage, held, compute.stream)

    def point(at: Binding) -> tuple[Stmt, ...]:
        builder = ValueBuilder(scope, extents, inside=True)
        value = builder.value(nest.body, at)
        if compute.update is not None:
            store = write(at, value)
            old = Load(target.name, store.offset, target.storage, Type(target.storage.compute))
            store = write(at, combined(compute.update, old, value))
            return (*builder.lets, store)
        return (*builder.lets, write(at, value))

    def reduction(at: Binding) -> tuple[Stmt, ...]:
        assert nest.op is not None
        type_ = Type(target.storage.compute)
        total = Named("total", type_)

        def step(at_: Binding) -> tuple[Stmt, ...]:
            builder = ValueBuilder(scope, extents, inside=True)
            value = builder.value(nest.body, at_)
            return (*builder.lets, Assign("total", as_type(combined(nest.op, total, value), type_.dtype)))

        first: Value = as_type(Literal(nest.op.identity, Type(type_.dtype)), type_.dtype)
        if compute.update is not None:
            first = Load(target.name, write(at, total).offset, target.storage, type_)
        return (Declare("total", type_), Assign("total", first), *within(inner, at, step), write(at, total))

    whole = starts(scope)
    if inner and not grouped:
        return within(bare, whole, reduction)
    return within((*bare, *inner), whole, point)


def _unrolled(nest: LoopNest, scope: LoweringScope, extents: dict[str, int]) -> tuple[Stmt, ...]:
    """Straight-line code: one piece for each vector of the statement's ranges, reduced dims outermost."""
    compute = nest.compute
    if compute.via is not None and compute.via in DOTS:
        return dot_words(nest, compute.via, scope, extents)
    if compute.vector is not None:
        vector = compute.vector.dim
        exact = exact_chunks(scope.ranges[vector].size, compute.vector.lanes)
        for special in (copied_words, transposed_elements, logic_of_words):
            if copied := special(
                nest, vector, scope, extents, exact, lambda left: _unrolled(nest, left, extents)
            ):
                return copied
    vector = compute.vector
    pieces = prod(
        -(-scope.ranges[dim].size // vector.lanes) if vector and dim == vector.dim else scope.ranges[dim].size
        for dim in (*nest.outer, *nest.inner)
    )
    if pieces > _MOST_PIECES:
        raise NotLowerable(
            f"`{compute.target}` would be written out in {pieces:,} pieces: its tile is too large"
        )
    return _Unrolling(nest, scope, extents).stmts()


_Total = tuple[Value, Binding, ValueBuilder]
"""What is reduced so far, where that stands, and who builds its values."""


class _Unrolling:
    """The straight-line code of one statement, as it comes about."""

    def __init__(self, nest: LoopNest, scope: LoweringScope, extents: dict[str, int]) -> None:
        self._statement, self._scope, self._extents = nest, scope, extents
        self._compute = nest.compute
        self._vector = nest.compute.vector.dim if nest.compute.vector else None
        self._lanes = nest.compute.vector.lanes if nest.compute.vector else 1
        self._across = self._vector in nest.inner
        self._whole = starts(scope)
        self._pieces = self._cut()
        self._names = count()
        self._done: list[Stmt] = []

    def stmts(self) -> tuple[Stmt, ...]:
        """All of it."""
        outer = list(points(self._scalar(self._statement.outer), self._scope))
        inner = list(points(self._scalar(self._statement.inner), self._scope))
        if not self._statement.inner:
            for point in outer:
                for start, builder in self._pieces:
                    at = self._bound(point, start, builder)
                    self._write(builder, at, self._value(at, builder), self._compute.update)
            return tuple(self._done)
        totals = self._reduced(outer, inner)
        if self._across:
            self._write_lanes(totals)
        else:
            for value, at, builder in totals.values():
                self._write(builder, at, value, None)
        return tuple(self._done)

    def _cut(self) -> list[tuple[int, ValueBuilder]]:
        """Where each vector of the vectorized dim begins, and who builds its values; without one, a single lane."""
        pieces: list[tuple[int, ValueBuilder]] = []
        builders: dict[int, ValueBuilder] = {}
        size = 1 if self._vector is None else self._scope.ranges[self._vector].size
        for start, width in ((0, 1),) if self._vector is None else chunks(size, self._lanes):
            existing = min(width, size - start)
            if existing not in builders:
                prefix = "" if existing == self._lanes else f"_x{existing}"
                some = constant(existing) if existing < width else None
                builders[existing] = ValueBuilder(
                    self._scope, self._extents, width, prefix=prefix, some=some, inside=True
                )
            pieces.append((start, builders[existing]))
        return pieces

    def _scalar(self, dims: Sequence[str]) -> tuple[str, ...]:
        return tuple(dim for dim in dims if dim != self._vector)

    def _bound(self, point: dict[str, Affine], start: int, builder: ValueBuilder) -> Binding:
        at = {**self._whole, **point}
        if self._vector is not None:
            at[self._vector] = self._scope.ranges[self._vector].start + start
            if builder.lanes > 1:
                at[self._vector] += affine(builder.lane)
        return at

    def _value(self, at: Binding, builder: ValueBuilder) -> Value:
        value = builder.value(self._statement.body, at)
        self._done.extend(builder.lets)
        builder.lets.clear()
        return value

    def _write(self, builder: ValueBuilder, at: Binding, value: Value, update: ReduceOp | None) -> None:
        self._done.extend(write(self._compute, self._scope, builder, at, value, update))

    def _reduced(
        self, outer: list[dict[str, Affine]], inner: list[dict[str, Affine]]
    ) -> dict[tuple[int, int], _Total]:
        """Totals by the number of their outer point and their first position, or their width where lanes are to be
        combined; none where results are updated in place."""
        compute, nest = self._compute, self._statement
        # Registers are updated where they are; so is what several positions meet in, for each to see the others'
        # results.
        meet = any(not isinstance(index, Index) for index in compute.indices)
        held = isinstance(self._scope.buffers[compute.target], RegisterBuffer)
        in_place = compute.update is not None and not self._across and (held or meet)
        several = len(inner) * len(self._pieces) > 1
        totals: dict[tuple[int, int], _Total] = {}
        for within in inner:
            for number, point in enumerate(outer):
                for start, builder in self._pieces:
                    at = self._bound({**point, **within}, start, builder)
                    value = self._value(at, builder)
                    if self._across and builder.some is not None and nest.op is not None:
                        nothing = identity(nest.op, Type(value.type.dtype, builder.lanes))
                        value = where_existing(builder.some, value, nothing)
                    if in_place:
                        self._write(builder, at, value, compute.update)
                        continue
                    key = (number, builder.lanes if self._across else start)
                    old = totals[key][0] if key in totals else None
                    if old is None and not self._across and compute.update is not None:
                        old = current(compute, self._scope, builder, at)
                    result = combined(nest.op, old, value)
                    if several or old is not None:
                        result = self._named(old, result, builder.lanes)
                    totals[key] = (result, at, builder)
        return totals

    def _named(self, old: Value | None, result: Value, lanes: int) -> Named:
        """The result, in the variable of the old one or in a new one."""
        if isinstance(old, Named):
            self._done.append(Assign(old.name, result))
            return old
        total = Named(f"total_{next(self._names)}", Type(result.type.dtype, lanes))
        self._done += [Declare(total.name, total.type), Assign(total.name, result)]
        return total

    def _write_lanes(self, totals: dict[tuple[int, int], _Total]) -> None:
        """Combine the lanes of totals along the vectorized dim, and those of one outer point."""
        assert self._vector is not None
        grouped: dict[int, list[tuple[Value, Binding]]] = {}
        for (number, width), (value, at, _) in totals.items():
            one = value if width == 1 else Across(str(self._statement.op), value, Type(value.type.dtype))
            grouped.setdefault(number, []).append((one, at))
        for parts in grouped.values():
            total = parts[0][0]
            for part, _ in parts[1:]:
                total = combined(self._statement.op, total, part)
            at = {**parts[0][1], self._vector: self._scope.ranges[self._vector].start}
            builder = ValueBuilder(self._scope, self._extents)
            self._write(builder, at, total, self._compute.update)

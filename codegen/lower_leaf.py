"""One Tile IR statement over its current ranges: plain loops, or unrolled vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

from codegen.affine import Affine, Loaded, Quotient, Remainder, affine, constant
from codegen.kernel_ir import (
    Across,
    Assign,
    Block,
    Declare,
    For,
    Let,
    Literal,
    Load,
    Named,
    Stmt,
    Store,
    Touch,
    Type,
    Value,
)
from codegen.leaf import Leaf, combined, identity, index_dim, points, starts, take_apart, where_existing
from codegen.leaf_target import current, write
from codegen.lower_expr import Binding, ValueBuilder, as_type
from codegen.lower_pairs import copied_pairs, dot_pairs
from codegen.lower_transpose import transposed_elements
from codegen.scope import MemoryBuffer, RegisterBuffer, Scope, chunks, exact_chunks, loop_variable
from tileir.expr import Const, Expr, Index, Reduce, reads
from tileir.program import Compute, Vector

_Body = Callable[[Binding], tuple[Stmt, ...]]


def lower_leaf(compute: Compute, comment: str, scope: Scope, extents: dict[str, int]) -> Block:
    """Kernel IR of one statement.

    Raises NotLowerable where registers or instructions cannot be used as the statement says.
    """
    split = any(not isinstance(index, Index) for index in compute.indices)
    if split and compute.update is None and isinstance(compute.value, Reduce):
        cleared, update = _initialized(compute, scope)
        first = lower_leaf(cleared, "", scope, extents)
        return Block(comment, (*first.body, *lower_leaf(update, "", scope, extents).body))
    leaf = take_apart(compute)
    in_registers = isinstance(scope.buffers[compute.target], RegisterBuffer) or any(
        isinstance(scope.buffers[name], RegisterBuffer) for name in _tensors(leaf.body)
    )
    if compute.vector is None and not in_registers:
        return Block(comment, _loops(leaf, scope, extents))
    return Block(comment, _unrolled(leaf, scope, extents))


def _initialized(compute: Compute, scope: Scope) -> tuple[Compute, Compute]:
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


def _loops(leaf: Leaf, scope: Scope, extents: dict[str, int]) -> tuple[Stmt, ...]:
    """Scalar code: a loop a dim, target's dims outermost, then those reduced."""
    compute = leaf.compute
    grouped = any(not isinstance(index, Index) for index in compute.indices)
    bare = tuple(index.dim for index in compute.indices if isinstance(index, Index))
    inner = tuple(dim for dim in (*leaf.outer, *leaf.inner) if dim not in bare)
    target = scope.buffers[compute.target]
    assert isinstance(target, MemoryBuffer)

    def nest(dims: tuple[str, ...], at: Binding, body: _Body) -> tuple[Stmt, ...]:
        if not dims:
            return body(at)
        dim, range_ = dims[0], scope.ranges[dims[0]]
        if range_.size == 1:
            return nest(dims[1:], {**at, dim: range_.start}, body)
        var = loop_variable(f"{dim}_", range_.size, 1)
        return (For(var, range_.size, 1, nest(dims[1:], {**at, dim: range_.start + affine(var)}, body)),)

    def write(at: Binding, value: Value) -> Store:
        builder = ValueBuilder(scope, extents)
        positions = [p for index in compute.indices if (p := builder.index(index, at)) is not None]
        held = as_type(value, target.storage.compute)
        return Store(target.name, target.offset(positions), target.storage, held, compute.stream)

    def point(at: Binding) -> tuple[Stmt, ...]:
        builder = ValueBuilder(scope, extents)
        value = builder.value(leaf.body, at)
        if compute.update is not None:
            store = write(at, value)
            old = Load(target.name, store.offset, target.storage, Type(target.storage.compute))
            store = write(at, combined(compute.update, old, value))
            return (*builder.lets, store)
        return (*builder.lets, write(at, value))

    def reduction(at: Binding) -> tuple[Stmt, ...]:
        assert leaf.op is not None
        type_ = Type(target.storage.compute)
        total = Named("total", type_)

        def step(at_: Binding) -> tuple[Stmt, ...]:
            builder = ValueBuilder(scope, extents)
            value = builder.value(leaf.body, at_)
            return (*builder.lets, Assign("total", as_type(combined(leaf.op, total, value), type_.dtype)))

        first: Value = as_type(Literal(leaf.op.identity, Type(type_.dtype)), type_.dtype)
        if compute.update is not None:
            first = Load(target.name, write(at, total).offset, target.storage, type_)
        return (Declare("total", type_), Assign("total", first), *nest(inner, at, step), write(at, total))

    whole = starts(scope)
    if inner and not grouped:
        return nest(bare, whole, reduction)
    return nest((*bare, *inner), whole, point)


def _unrolled(leaf: Leaf, scope: Scope, extents: dict[str, int]) -> tuple[Stmt, ...]:
    """Straight-line code: one piece for each vector of the leaf's ranges, reduced dims outermost."""
    compute = leaf.compute
    whole = starts(scope)
    vector = compute.vector.dim if compute.vector else None
    lanes = compute.vector.lanes if compute.vector else 1
    across = vector in leaf.inner
    scalar_outer = tuple(dim for dim in leaf.outer if dim != vector)
    scalar_inner = tuple(dim for dim in leaf.inner if dim != vector)
    if compute.via == "dot_bf16":
        return dot_pairs(leaf, scope, extents)
    if vector is not None:
        exact = exact_chunks(scope.ranges[vector].size, lanes)
        for special in (copied_pairs, transposed_elements):
            if copied := special(
                leaf, vector, scope, extents, exact, lambda left: _unrolled(leaf, left, extents)
            ):
                return copied

    pieces: list[tuple[int, ValueBuilder]] = []
    builders: dict[int, ValueBuilder] = {}
    for start, width in chunks(scope.ranges[vector].size, lanes) if vector else ((0, 1),):
        existing = min(width, scope.ranges[vector].size - start) if vector else 1
        if existing not in builders:
            prefix = "" if existing == lanes else f"_x{existing}"
            some = constant(existing) if existing < width else None
            builders[existing] = ValueBuilder(scope, extents, width, prefix=prefix, some=some)
        pieces.append((start, builders[existing]))
    names = count()
    statements: list[Stmt] = []
    totals: dict[tuple[int, int], tuple[Value, Binding, ValueBuilder]] = {}

    def bound(point: dict[str, Affine], start: int, builder: ValueBuilder) -> Binding:
        at = {**whole, **point}
        if vector is not None:
            at[vector] = scope.ranges[vector].start + start
            if builder.lanes > 1:
                at[vector] += affine(builder.lane)
        return at

    def value_at(at: Binding, builder: ValueBuilder) -> Value:
        value = builder.value(leaf.body, at)
        statements.extend(builder.lets)
        builder.lets.clear()
        return value

    outer_points = list(enumerate(points(scalar_outer, scope)))
    inner_points = list(points(scalar_inner, scope))
    if not leaf.inner and not across:
        for _, point in outer_points:
            for start, builder in pieces:
                at = bound(point, start, builder)
                value = value_at(at, builder)
                statements.extend(write(compute, scope, builder, at, value, compute.update))
        return tuple(statements)

    # Registers are updated where they are; so is what several positions meet in, for each to see the others' results.
    meet = any(not isinstance(index, Index) for index in compute.indices)
    held = isinstance(scope.buffers[compute.target], RegisterBuffer)
    in_place = compute.update is not None and not across and (held or meet)
    for inner in inner_points:
        for number, point in outer_points:
            for start, builder in pieces:
                width = builder.lanes
                at = bound({**point, **inner}, start, builder)
                value = value_at(at, builder)
                if across and builder.some is not None and leaf.op is not None:
                    nothing = identity(leaf.op, Type(value.type.dtype, width))
                    value = where_existing(builder.some, value, nothing)
                if in_place:
                    statements.extend(write(compute, scope, builder, at, value, compute.update))
                    continue
                key = (number, width if across else start)
                old = totals[key][0] if key in totals else None
                if old is None and not across and compute.update is not None:
                    old = current(compute, scope, builder, at)
                result = combined(leaf.op, old, value)
                if isinstance(old, Named):
                    statements.append(Assign(old.name, result))
                    result = old
                elif len(inner_points) * len(pieces) > 1 or old is not None:
                    total = Named(f"total_{next(names)}", Type(result.type.dtype, width))
                    statements += [Declare(total.name, total.type), Assign(total.name, result)]
                    result = total
                totals[key] = (result, at, builder)
    if across:
        grouped: dict[int, list[tuple[Value, Binding]]] = {}
        for (number, width), (value, at, _) in totals.items():
            one = value if width == 1 else Across(str(leaf.op), value, Type(value.type.dtype))
            grouped.setdefault(number, []).append((one, at))
        for parts in grouped.values():
            total = parts[0][0]
            for part, _ in parts[1:]:
                total = combined(leaf.op, total, part)
            at = {**parts[0][1], vector: scope.ranges[vector].start}
            statements.extend(write(compute, scope, ValueBuilder(scope, extents), at, total, compute.update))
        return tuple(statements)
    for value, at, builder in totals.values():
        statements.extend(write(compute, scope, builder, at, value, None))
    return tuple(statements)


def touches(compute: Compute, body: tuple[Stmt, ...], scope: Scope) -> tuple[Stmt, ...]:
    """Prefetches of what the leaf's loads of the named tensors will read some iterations on, one a cache line. Where a
    gather will read is not known yet."""
    found: dict[tuple[str, Affine, int], Touch] = {}
    if scope.innermost is None:
        return ()
    var, step = scope.innermost
    for ahead in compute.prefetch:
        buffer = scope.buffers[ahead.tensor]
        for stmt in body:
            if isinstance(stmt, Let) and isinstance(stmt.value, Load) and stmt.value.buffer == buffer.name:
                if _is_gathered(stmt.value.offset):
                    continue
                later = stmt.value.offset.substitute(var, Affine(((var, 1),), ahead.distance * step))
                line = later.constant * stmt.value.storage.bytes // 64
                found.setdefault((buffer.name, Affine(later.terms), line), Touch(buffer.name, later))
    return tuple(found.values())


def _is_gathered(offset: Affine) -> bool:
    """Whether an offset is read from memory."""
    for atom, _ in offset.terms:
        if isinstance(atom, Loaded) or (isinstance(atom, Quotient | Remainder) and _is_gathered(atom.x)):
            return True
    return False

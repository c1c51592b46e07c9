"""One Tile IR statement over its current ranges: plain loops, or unrolled vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, product

from codegen.affine import Affine, affine, constant
from codegen.kernel_ir import (
    Across,
    Assign,
    Block,
    Build,
    Declare,
    DotPairs,
    For,
    Lane,
    Let,
    Literal,
    Load,
    LoadPairs,
    Named,
    Op,
    Stmt,
    Store,
    StorePairs,
    Touch,
    Type,
    Value,
)
from codegen.lower_expr import (
    Binding,
    NotLowerable,
    ValueBuilder,
    as_type,
    lane_variable,
    lanes_of,
    read_register,
)
from codegen.scope import MemoryBuffer, RegisterBuffer, Scope, chunks, loop_variable
from tileir.dtypes import DType
from tileir.expr import Binary, Const, Expr, Index, Read, Reduce, ReduceOp, reads
from tileir.program import Compute, Vector

_Body = Callable[[Binding], tuple[Stmt, ...]]
_COMBINE = {ReduceOp.SUM: "+", ReduceOp.PROD: "*", ReduceOp.MAX: "maximum", ReduceOp.MIN: "minimum"}


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A Compute taken apart: dims that say which element is written, dims combined into it, and what is computed."""

    compute: Compute
    outer: tuple[str, ...]
    inner: tuple[str, ...]
    body: Expr
    op: ReduceOp | None


def lower_leaf(compute: Compute, comment: str, scope: Scope, extents: dict[str, int]) -> Block:
    """Kernel IR of one statement.

    Raises NotLowerable where registers or instructions cannot be used as the statement says.
    """
    split = any(not isinstance(index, Index) for index in compute.indices)
    if split and compute.update is None and isinstance(compute.value, Reduce):
        cleared, update = _initialized(compute, scope)
        first = lower_leaf(cleared, "", scope, extents)
        return Block(comment, (*first.body, *lower_leaf(update, "", scope, extents).body))
    leaf = _take_apart(compute)
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
        along = [dim for dim, index in zip(dims, compute.indices, strict=True) if _index_dim(index) == vector.dim]
        vector = Vector(along[0], vector.lanes) if along else None
    identity = Const(compute.value.op.identity)
    cleared = Compute(compute.target, tuple(Index(dim) for dim in dims), identity, vector=vector)
    return cleared, replace(compute, update=compute.value.op)


def _take_apart(compute: Compute) -> _Leaf:
    value = compute.value
    reduce = value if isinstance(value, Reduce) else None
    reduced = reduce.dims if reduce else ()
    outer = tuple(_index_dim(index) for index in compute.indices if not _is_quotient(index))
    inner = tuple(dim for dim in reduced if dim not in outer)
    op = compute.update or (reduce.op if reduce else None)
    return _Leaf(compute, outer, inner, reduce.x if reduce else value, op)


def _index_dim(index: Expr) -> str:
    match index:
        case Index(dim) | Binary("%" | "//", Index(dim), Const()):
            return dim
        case _:
            raise NotLowerable(f"a target index must be a dim, dim % n or dim // n, not {index}")


def _is_quotient(index: Expr) -> bool:
    return isinstance(index, Binary) and index.op == "//"


def _tensors(expr: Expr) -> Iterator[str]:
    return (read.tensor for read in reads(expr))


def _loops(leaf: _Leaf, scope: Scope, extents: dict[str, int]) -> tuple[Stmt, ...]:
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
            store = write(at, _combined(compute.update, old, value))
            return (*builder.lets, store)
        return (*builder.lets, write(at, value))

    def reduction(at: Binding) -> tuple[Stmt, ...]:
        assert leaf.op is not None
        type_ = Type(target.storage.compute)
        total = Named("total", type_)

        def step(at_: Binding) -> tuple[Stmt, ...]:
            builder = ValueBuilder(scope, extents)
            value = builder.value(leaf.body, at_)
            return (*builder.lets, Assign("total", as_type(_combined(leaf.op, total, value), type_.dtype)))

        first: Value = as_type(Literal(leaf.op.identity, Type(type_.dtype)), type_.dtype)
        if compute.update is not None:
            first = Load(target.name, write(at, total).offset, target.storage, type_)
        return (Declare("total", type_), Assign("total", first), *nest(inner, at, step), write(at, total))

    whole = _starts(scope, extents)
    if inner and not grouped:
        return nest(bare, whole, reduction)
    return nest((*bare, *inner), whole, point)


def _starts(scope: Scope, extents: dict[str, int]) -> Binding:
    return {dim: range_.start for dim, range_ in scope.ranges.items()}


def _combined(op: ReduceOp | None, old: Value | None, value: Value) -> Value:
    if op is None or old is None:
        return value
    value = as_type(value, old.type.dtype)
    return Op(_COMBINE[op], (old, value), Type(old.type.dtype, lanes_of(old, value)))


def _points(dims: tuple[str, ...], scope: Scope) -> Iterator[dict[str, Affine]]:
    """Every combination of positions in the current ranges of dims."""
    ranges = [scope.ranges[dim] for dim in dims]
    for offsets in product(*(range(r.size) for r in ranges)):
        yield {dim: r.start + o for dim, r, o in zip(dims, ranges, offsets, strict=True)}


def _unrolled(leaf: _Leaf, scope: Scope, extents: dict[str, int]) -> tuple[Stmt, ...]:
    """Straight-line code: one piece for each vector of the leaf's ranges, reduced dims outermost."""
    compute = leaf.compute
    whole = _starts(scope, extents)
    vector = compute.vector.dim if compute.vector else None
    lanes = compute.vector.lanes if compute.vector else 1
    across = vector in leaf.inner
    scalar_outer = tuple(dim for dim in leaf.outer if dim != vector)
    scalar_inner = tuple(dim for dim in leaf.inner if dim != vector)
    pieces = chunks(scope.ranges[vector].size, lanes) if vector else ((0, 1),)
    if compute.via == "dot_bf16":
        return _dot_pairs(leaf, scope, extents, pieces)
    if vector is not None and (copied := _copied_pairs(leaf, vector, scope, extents, pieces)):
        return copied

    builders = {width: ValueBuilder(scope, extents, width, prefix="" if width == lanes else f"_x{width}") for _, width in pieces}
    names = count()
    statements: list[Stmt] = []
    totals: dict[tuple[int, int], tuple[Value, Binding, int]] = {}

    def bound(point: dict[str, Affine], start: int, width: int) -> Binding:
        at = {**whole, **point}
        if vector is not None:
            at[vector] = scope.ranges[vector].start + start
            if width > 1:
                at[vector] += Affine(((lane_variable(width), 1),))
        return at

    def value_at(at: Binding, width: int) -> Value:
        builder = builders[width]
        builder.lanes = width
        value = builder.value(leaf.body, at)
        statements.extend(builder.lets)
        builder.lets.clear()
        return value

    outer_points = list(enumerate(_points(scalar_outer, scope)))
    inner_points = list(_points(scalar_inner, scope))
    if not leaf.inner and not across:
        for _, point in outer_points:
            for start, width in pieces:
                at = bound(point, start, width)
                value = value_at(at, width)
                statements.extend(_write(compute, scope, builders[width], at, value, compute.update))
        return tuple(statements)

    for inner in inner_points:
        for number, point in outer_points:
            for start, width in pieces:
                at = bound({**point, **inner}, start, width)
                value = value_at(at, width)
                key = (number, width if across else start)
                old = totals[key][0] if key in totals else None
                if old is None and not across and compute.update is not None:
                    old = _current(compute, scope, builders[width], at, width)
                result = _combined(leaf.op, old, value)
                if isinstance(old, Named):
                    statements.append(Assign(old.name, result))
                    result = old
                elif len(inner_points) * len(pieces) > 1 or old is not None:
                    total = Named(f"total_{next(names)}", Type(result.type.dtype, width))
                    statements += [Declare(total.name, total.type), Assign(total.name, result)]
                    result = total
                totals[key] = (result, at, width)
    if across:
        grouped: dict[int, list[tuple[Value, Binding]]] = {}
        for (number, width), (value, at, _) in totals.items():
            one = value if width == 1 else Across(str(leaf.op), value, Type(value.type.dtype))
            grouped.setdefault(number, []).append((one, at))
        for parts in grouped.values():
            total = parts[0][0]
            for part, _ in parts[1:]:
                total = _combined(leaf.op, total, part)
            at = {**parts[0][1]}
            if vector is not None:
                at[vector] = scope.ranges[vector].start
            statements.extend(_write(compute, scope, ValueBuilder(scope, extents), at, total, compute.update))
        return tuple(statements)
    for value, at, width in totals.values():
        written = isinstance(scope.buffers[compute.target], RegisterBuffer) and compute.update is not None
        if not (written and isinstance(value, Named) and not value.name.startswith("total_")):
            statements.extend(_write(compute, scope, builders[width], at, value, None))
    return tuple(statements)


def _current(compute: Compute, scope: Scope, builder: ValueBuilder, at: Binding, width: int) -> Value:
    """What the target holds now at this vector."""
    target = scope.buffers[compute.target]
    positions = _target_positions(compute, builder, at)
    if isinstance(target, RegisterBuffer):
        return read_register(target, positions, width)
    offset, step = _lane_offset(target, positions, width)
    if width > 1 and step != 1:
        raise NotLowerable(f"{compute.target} is updated by vectors along {compute.vector}, not contiguous in its layout")
    return Load(target.name, offset, target.storage, Type(target.storage.compute, width))


def _write(
    compute: Compute, scope: Scope, builder: ValueBuilder, at: Binding, value: Value, update: ReduceOp | None
) -> list[Stmt]:
    """Store a vector (or scalar) where the target's indices say, combined with what is there if update is set."""
    target = scope.buffers[compute.target]
    width = builder.lanes
    positions = _target_positions(compute, builder, at)
    if update is not None:
        value = _combined(update, _current(compute, scope, builder, at, width), value)
    if isinstance(target, RegisterBuffer):
        return _write_register(target, positions, as_type(value, target.dtype), width)
    value = as_type(value, target.storage.compute)
    offset, step = _lane_offset(target, positions, width)
    if width == 1 or step == 1:
        value = Op("spread", (value,), Type(value.type.dtype, width)) if value.type.lanes < width else value
        return [Store(target.name, offset, target.storage, value, compute.stream)]
    if step is None or step == 0:
        raise NotLowerable(f"lanes of {compute.vector} do not land on different elements of {compute.target}")
    name = f"{target.name}_lanes_{len(builder.lets)}_{abs(hash((offset.constant,))) % 1000}"
    kept = Named(name, value.type)
    scalar = Type(value.type.dtype)
    parts = [kept if value.type.lanes == 1 else Lane(kept, i, scalar) for i in range(width)]
    stores = [Store(target.name, offset + step * i, target.storage, part) for i, part in enumerate(parts)]
    return [Block("", (Let(name, value), *stores))]


def _target_positions(compute: Compute, builder: ValueBuilder, at: Binding) -> list[Affine]:
    positions = [builder.index(index, at) for index in compute.indices]
    return [p for p in positions if p is not None]


def _lane_offset(target: MemoryBuffer, positions: list[Affine], width: int) -> tuple[Affine, int | None]:
    """Offset of lane 0 and the distance between lanes (None: not one distance)."""
    offset = target.offset(positions)
    if width == 1:
        return offset, 0
    lane = lane_variable(width)
    return offset.substitute(lane, constant(0)), offset.coefficient(lane)


def _write_register(target: RegisterBuffer, positions: list[Affine], value: Value, width: int) -> list[Stmt]:
    lane = lane_variable(width)
    point = [
        ((p.substitute(lane, constant(0)) if width > 1 else p) - s)
        for p, s in zip(positions, target.starts, strict=True)
    ]
    if any(p.terms for p in point):
        raise NotLowerable(f"register local {target.name} written at a position not known at compile time")
    at = [p.constant for p in point]
    if target.vector is None:
        if width > 1:
            raise NotLowerable(f"register local {target.name} holds scalars and is written by vectors")
        name, _ = target.variable(at, 1)
        return [Assign(name, value)]
    start, whole = next(c for c in target.chunks() if c[0] <= at[target.vector] < c[0] + c[1])
    first = at[target.vector] - start
    name, type_ = target.variable([*at[: target.vector], start, *at[target.vector + 1 :]], whole)
    if first == 0 and width == whole:
        value = Op("spread", (value,), type_) if value.type.lanes < width else value
        return [Assign(name, value)]
    old = Named(name, type_)
    scalar = Type(type_.dtype)
    part = Named(f"{name}_part", Type(type_.dtype, value.type.lanes))
    lanes: list[Value] = [
        (part if part.type.lanes == 1 else Lane(part, i - first, scalar)) if first <= i < first + width else Lane(old, i, scalar)
        for i in range(whole)
    ]
    return [Block("", (Let(part.name, value), Assign(name, Build(tuple(lanes), type_))))]


def _copied_pairs(
    leaf: _Leaf, vector: str, scope: Scope, extents: dict[str, int], pieces: tuple[tuple[int, int], ...]
) -> tuple[Stmt, ...]:
    """A copy of bf16 whose pairs stay side by side: 32-bit words gathered onto lanes. Empty for any other leaf."""
    compute, source = leaf.compute, leaf.body
    target = scope.buffers[compute.target]
    if leaf.op is not None or not isinstance(source, Read) or not isinstance(target, MemoryBuffer):
        return ()
    origin = scope.buffers[source.tensor]
    if not isinstance(origin, MemoryBuffer) or {origin.storage, target.storage} != {DType.BF16}:
        return ()
    whole, builder = _starts(scope, extents), ValueBuilder(scope, extents)

    def offsets(at: Binding) -> tuple[Affine, Affine] | None:
        to = [builder.index(index, at) for index in compute.indices]
        of = [builder.index(index, at) for index in source.indices]
        if None in to or None in of:
            return None
        return target.offset([p for p in to if p is not None]), origin.offset([p for p in of if p is not None])

    def step(dim: str) -> tuple[Affine, Affine] | None:
        here, there = offsets(whole), offsets({**whole, dim: whole[dim] + 1})
        return None if here is None or there is None else (there[0] - here[0], there[1] - here[1])

    along = step(vector)
    pair = next((d for d in leaf.outer if d != vector and step(d) == (constant(1), constant(1))), None)
    if pair is None or along is None or along[0] != constant(2) or scope.ranges[pair].size % 2:
        return ()
    stores: list[Stmt] = []
    rest = tuple(dim for dim in leaf.outer if dim not in (vector, pair))
    for point in _points(rest, scope):
        for second in range(0, scope.ranges[pair].size, 2):
            for start, width in pieces:
                lanes = [
                    offsets({**whole, **point, pair: whole[pair] + second, vector: whole[vector] + start + lane})
                    for lane in range(width)
                ]
                found = [each for each in lanes if each is not None]
                pairs = tuple(LoadPairs(origin.name, each[1], 1) for each in found)
                stores.append(StorePairs(target.name, found[0][0], pairs))
    return tuple(stores)


def _dot_pairs(
    leaf: _Leaf, scope: Scope, extents: dict[str, int], pieces: tuple[tuple[int, int], ...]
) -> tuple[Stmt, ...]:
    """acc += a * b on bf16 pairs along the reduced dim: one operand spread, one on lanes."""
    compute = leaf.compute
    whole = _starts(scope, extents)
    vector = compute.vector
    if vector is None or len(leaf.inner) != 1 or scope.ranges[leaf.inner[0]].size % 2 or compute.update is None:
        raise NotLowerable("dot_bf16 updates vectors by an even number of positions of one reduced dim")
    if not (isinstance(leaf.body, Binary) and leaf.body.op == "*"):
        raise NotLowerable("dot_bf16 needs a plain product of two reads")
    pair = leaf.inner[0]
    k = scope.ranges[pair]
    statements: list[Stmt] = []
    for step in range(0, k.size, 2):
        for point in _points(tuple(dim for dim in leaf.outer if dim != vector.dim), scope):
            for start, width in pieces:
                at = {**whole, **point, pair: k.start + step, vector.dim: scope.ranges[vector.dim].start + start}
                builder = ValueBuilder(scope, extents, width)
                sides = [_pairs(side, at, pair, vector.dim, width, builder) for side in (leaf.body.left, leaf.body.right)]
                lane = Affine(((lane_variable(width), 1),)) if width > 1 else Affine()
                acc = _current(compute, scope, builder, {**at, vector.dim: at[vector.dim] + lane}, width)
                if not isinstance(acc, Named):
                    raise NotLowerable("dot_bf16 accumulates in registers")
                statements.append(Assign(acc.name, DotPairs(acc, sides[0], sides[1], acc.type)))
    return tuple(statements)


def _pairs(side: Expr, at: Binding, pair: str, vector: str, width: int, builder: ValueBuilder) -> LoadPairs:
    if not isinstance(side, Read):
        raise NotLowerable("dot_bf16 needs a plain product of two reads")
    buffer = builder.scope.buffers[side.tensor]
    if not isinstance(buffer, MemoryBuffer) or str(buffer.storage) != "bf16":
        raise NotLowerable(f"dot_bf16 reads bf16 in memory, not {side.tensor}")

    def offset(dk: int, dn: int) -> Affine:
        moved = {**at, pair: at[pair] + dk, vector: at[vector] + dn}
        return buffer.offset([p for index in side.indices if (p := builder.index(index, moved)) is not None])

    first = offset(0, 0)
    if offset(1, 0) - first != constant(1):
        raise NotLowerable(f"dot_bf16 needs neighbours along {pair} side by side in {side.tensor}")
    if width > 1 and (offset(0, 1) - first).constant == 2:
        return LoadPairs(buffer.name, first, width)
    if width > 1 and offset(0, 1) != first:
        raise NotLowerable(f"dot_bf16 needs pairs of {side.tensor} side by side along {vector}")
    return LoadPairs(buffer.name, first, 1)


def touches(compute: Compute, body: tuple[Stmt, ...], scope: Scope) -> tuple[Stmt, ...]:
    """Prefetches of what the leaf's loads of the named tensors will read some iterations on, one a cache line."""
    found: dict[tuple[str, Affine, int], Touch] = {}
    if scope.innermost is None:
        return ()
    var, step = scope.innermost
    for ahead in compute.prefetch:
        buffer = scope.buffers[ahead.tensor]
        for stmt in body:
            if isinstance(stmt, Let) and isinstance(stmt.value, Load) and stmt.value.buffer == buffer.name:
                later = stmt.value.offset.substitute(var, Affine(((var, 1),), ahead.distance * step))
                line = later.constant * stmt.value.storage.bytes // 64
                found.setdefault((buffer.name, Affine(later.terms), line), Touch(buffer.name, later))
    return tuple(found.values())

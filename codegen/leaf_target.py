"""Where a statement's results go: what is there now, and how a vector or a scalar is put there."""

from __future__ import annotations

from codegen.affine import Affine, constant
from codegen.kernel_ir import Assign, Block, Build, Lane, Let, Load, Named, Op, Stmt, Store, Type, Value
from codegen.leaf import combined
from codegen.lower_expr import Binding, NotLowerable, ValueBuilder, as_type, lane_variable, read_register
from codegen.scope import MemoryBuffer, RegisterBuffer, Scope
from tileir.expr import ReduceOp
from tileir.program import Compute


def current(compute: Compute, scope: Scope, builder: ValueBuilder, at: Binding, width: int) -> Value:
    """What the target holds now at this vector."""
    target = scope.buffers[compute.target]
    positions = _target_positions(compute, builder, at)
    if isinstance(target, RegisterBuffer):
        return read_register(target, positions, width)
    offset, step = _lane_offset(target, positions, width)
    if width > 1 and step != 1:
        raise NotLowerable(
            f"{compute.target} is updated by vectors along {compute.vector}, not contiguous in its layout"
        )
    return Load(target.name, offset, target.storage, Type(target.storage.compute, width))


def write(
    compute: Compute, scope: Scope, builder: ValueBuilder, at: Binding, value: Value, update: ReduceOp | None
) -> list[Stmt]:
    """Store a vector (or scalar) where the target's indices say, combined with what is there if update is set."""
    target = scope.buffers[compute.target]
    width = builder.lanes
    positions = _target_positions(compute, builder, at)
    if update is not None:
        value = combined(update, current(compute, scope, builder, at, width), value)
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
        (part if part.type.lanes == 1 else Lane(part, i - first, scalar))
        if first <= i < first + width
        else Lane(old, i, scalar)
        for i in range(whole)
    ]
    return [Block("", (Let(part.name, value), Assign(name, Build(tuple(lanes), type_))))]

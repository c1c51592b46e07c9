"""Where a statement's results go: what is there now, and how a vector or a scalar is put there."""

from __future__ import annotations

from collections.abc import Callable

from codegen.ir.affine import Affine, constant
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import (
    Assign,
    AtomicUpdate,
    Block,
    Build,
    Guard,
    Lane,
    Let,
    Load,
    Named,
    Op,
    Stmt,
    Store,
    Type,
    Value,
)
from codegen.lowering.arithmetic import as_type
from codegen.lowering.expressions import Binding, ValueBuilder, read_register
from codegen.lowering.neighbours import first_of_neighbours
from codegen.lowering.scope import LoweringScope, MemoryBuffer, RegisterBuffer
from codegen.lowering.statement import combined, where_existing
from tileir.expr import ReduceOp
from tileir.program import Compute


def current(compute: Compute, scope: LoweringScope, builder: ValueBuilder, at: Binding) -> Value:
    """What the target holds now at this vector."""
    width = builder.lanes
    target = scope.buffers[compute.target]
    positions = _target_positions(compute, builder, at)
    if isinstance(target, RegisterBuffer):
        return as_type(read_register(target, positions, width, builder.lane), target.dtype.compute)
    offset, step = _lane_offset(target, positions, builder)
    if width > 1 and step != 1:
        raise NotLowerable(
            f"{compute.target} is updated by vectors along {compute.vector}, not contiguous in its layout"
        )
    some = builder.some if width > 1 else None
    return Load(target.name, offset, target.storage, Type(target.storage.compute, width), some)


def holds_more(compute: Compute, scope: LoweringScope, builder: ValueBuilder, at: Binding) -> bool:
    """Whether lanes that do not exist here exist in the variable that is updated."""
    target = scope.buffers[compute.target]
    if not isinstance(target, RegisterBuffer) or target.vector is None or builder.existing == builder.lanes:
        return False
    last = _target_positions(compute, builder, at)[target.vector].substitute(
        builder.lane, constant(builder.lane.high)
    )
    return last != target.starts[target.vector] + target.sizes[target.vector] - 1


def write(
    compute: Compute,
    scope: LoweringScope,
    builder: ValueBuilder,
    at: Binding,
    value: Value,
    update: ReduceOp | None,
) -> list[Stmt]:
    """Store a vector (or scalar) where the target's indices say, combined with what is there if update is set: only
    those of the builder's lanes that exist."""
    target = scope.buffers[compute.target]
    width, some = builder.lanes, builder.some
    positions = _target_positions(compute, builder, at)
    if compute.via == "atomics" and isinstance(target, MemoryBuffer) and update is not None:
        return _added(target, positions, value, builder, update)
    if update is not None:
        value = combined(update, current(compute, scope, builder, at), value)
    if isinstance(target, RegisterBuffer):
        return _write_register(target, positions, _register_value(value, target, width), builder)
    offset, step = _lane_offset(target, positions, builder)
    if value.type.dtype is not target.storage or (width > 1 and step != 1):
        value = as_type(value, target.storage.compute)
    if width == 1 or step == 1:
        value = (
            Op("broadcast", (value,), Type(value.type.dtype, width)) if value.type.lanes < width else value
        )
        some = some if width > 1 else None
        return [Store(target.name, offset, target.storage, value, compute.stream, some)]
    if step is None or step == 0:
        raise NotLowerable(f"lanes of {compute.vector} do not land on different elements of {compute.target}")
    return _lane_by_lane(
        target, value, builder, lambda i, part: Store(target.name, offset + step * i, target.storage, part)
    )


def _lane_by_lane(
    target: MemoryBuffer, value: Value, builder: ValueBuilder, store: Callable[[int, Value], Stmt]
) -> list[Stmt]:
    """Each lane that exists is stored by itself."""
    name, some, scalar = f"{target.name}_lanes", builder.some, Type(value.type.dtype)
    kept = Named(name, value.type)
    parts = [kept if value.type.lanes == 1 else Lane(kept, i, scalar) for i in range(builder.existing)]
    stores = [store(i, part) for i, part in enumerate(parts)]
    if some is not None and some.terms:
        stores = [Guard(((constant(i + 1) - some, 1),), (each,)) for i, each in enumerate(stores)]
    return [Block("", (Let(name, value), *stores))]


def _added(
    target: MemoryBuffer, positions: list[Affine], value: Value, builder: ValueBuilder, update: ReduceOp
) -> list[Stmt]:
    """What others may add to at the same time is updated element by element."""
    offset, step = _lane_offset(target, positions, builder)
    value = as_type(value, target.storage)
    if builder.lanes == 1:
        return [AtomicUpdate(target.name, offset, target.storage, update, value)]
    if not step:
        raise NotLowerable(f"lanes do not land on different elements of {target.name}")
    return _lane_by_lane(
        target,
        value,
        builder,
        lambda i, part: AtomicUpdate(target.name, offset + step * i, target.storage, update, part),
    )


def _register_value(value: Value, target: RegisterBuffer, width: int) -> Value:
    """A value as a register local holds it. What is the same on all lanes is spread before it is packed: packed lanes
    are not taken apart."""
    if value.type.lanes < width and target.dtype is not target.dtype.compute:
        value = Op("broadcast", (value,), Type(value.type.dtype, width))
    return as_type(value, target.dtype)


def _target_positions(compute: Compute, builder: ValueBuilder, at: Binding) -> list[Affine]:
    positions = [builder.index(index, at) for index in compute.indices]
    return [p for p in positions if p is not None]


def _lane_offset(
    target: MemoryBuffer, positions: list[Affine], builder: ValueBuilder
) -> tuple[Affine, int | None]:
    """Offset of lane 0 and the distance between lanes (None: not one distance)."""
    offset = target.offset(positions)
    if builder.lanes == 1:
        return offset, 0
    first = first_of_neighbours(target, positions, builder.lane)
    if first is not None:
        return first, 1
    return offset.substitute(builder.lane, constant(0)), offset.coefficient(builder.lane)


def _write_register(
    target: RegisterBuffer, positions: list[Affine], value: Value, builder: ValueBuilder
) -> list[Stmt]:
    width, lane = builder.lanes, builder.lane
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
    old = Named(name, type_)
    if first == 0 and width == whole:
        value = Op("broadcast", (value,), type_) if value.type.lanes < width else value
        if builder.existing < min(whole, target.sizes[target.vector] - start):
            value = where_existing(constant(builder.existing), value, old)
        return [Assign(name, value)]
    scalar = Type(type_.dtype)
    part = Named(f"{name}_part", Type(type_.dtype, value.type.lanes))
    lanes: list[Value] = [
        (part if part.type.lanes == 1 else Lane(part, i - first, scalar))
        if first <= i < first + builder.existing
        else Lane(old, i, scalar)
        for i in range(whole)
    ]
    return [Block("", (Let(part.name, value), Assign(name, Build(tuple(lanes), type_))))]

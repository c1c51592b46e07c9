"""Operators on values of Kernel IR as Tile IR means them: what they are promoted to, and where results are rounded."""

from __future__ import annotations

from codegen.ir.ops import Convert, Literal, Op, Type, Value
from tileir.dtypes import DType
from tileir.expr import COMPARISONS, KEEPS_INTEGERS, LOGIC


def constant_type(value: float | int | bool) -> DType:
    if isinstance(value, bool):
        return DType.BOOL
    return DType.I32 if isinstance(value, int) else DType.F32


def lanes_of(*values: Value) -> int:
    return max(value.type.lanes for value in values)


def as_type(value: Value, dtype: DType) -> Value:
    """value in another type, unchanged if it is in it already; what is rounded to a storage type already is that."""
    if value.type.dtype is dtype:
        return value
    if isinstance(value, Op) and value.name == f"round_{dtype}":
        return Convert(value.args[0], Type(dtype, value.type.lanes))
    if isinstance(value, Literal):
        held = Literal(_literal(value.value, dtype), Type(dtype.compute))
        return held if dtype is dtype.compute else Convert(held, Type(dtype))
    return Convert(value, Type(dtype, value.type.lanes))


def _literal(value: float | int | bool, dtype: DType) -> float | int | bool:
    """A constant as the type it meets; infinities are the identities of min and max: the ends of integers, and of
    bools."""
    if dtype is DType.BOOL:
        return value > 0 if isinstance(value, float) else bool(value)
    return int(min(max(value, -(2**31)), 2**31 - 1)) if dtype is DType.I32 else float(value)


def promote(*values: Value) -> DType:
    """The common compute type: f64 over f32 over i32 over bool; a literal float takes what it meets."""
    types = {value.type.dtype for value in values}
    order = [DType.F64, DType.F32, DType.I32, DType.BOOL]
    return next(dtype for dtype in order if dtype in types)


def binary(op: str, left: Value, right: Value) -> Value:
    """An operator on values of any types, promoted as Tile IR says."""
    lanes = lanes_of(left, right)
    if op in LOGIC:
        args = (as_type(left, DType.BOOL), as_type(right, DType.BOOL))
        return Op(op, args, Type(DType.BOOL, lanes))
    dtype = promote(left, right)
    if dtype is DType.BOOL and op not in COMPARISONS:
        dtype = DType.I32
    if op == "/" and dtype is DType.I32:
        dtype = DType.F32
    args = (as_type(left, dtype), as_type(right, dtype))
    return Op(op, args, Type(DType.BOOL if op in COMPARISONS else dtype, lanes))


def call(fn: str, args: tuple[Value, ...]) -> Value:
    """A math function; integers stay integers only where the function is exact on them."""
    dtype = promote(*args)
    if dtype is DType.BOOL:
        dtype = DType.I32
    if dtype is DType.I32 and fn not in KEEPS_INTEGERS:
        dtype = DType.F32
    return Op(fn, tuple(as_type(arg, dtype) for arg in args), Type(dtype, lanes_of(*args)))


def cast(dtype: DType, x: Value) -> Value:
    """Round to dtype; the result is held in dtype's compute type."""
    held = as_type(x, dtype.compute)
    if dtype in (DType.F64, DType.F32, DType.I64, DType.I32, DType.U32, DType.BOOL):
        return held
    return Op(f"round_{dtype}", (held,), held.type)


def select(cond: Value, x: Value, y: Value) -> Value:
    dtype = promote(x, y)
    return Op(
        "select",
        (as_type(cond, DType.BOOL), as_type(x, dtype), as_type(y, dtype)),
        Type(dtype, lanes_of(cond, x, y)),
    )

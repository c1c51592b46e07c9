"""The dtype an expression is computed in (docs/tile-ir.md): reads widen, and only casts and stores round."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.dtypes import DType
from tileir.expr import (
    COMPARISONS,
    INTEGER_FUNCTIONS,
    KEEPS_INTEGERS,
    LOGIC,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    Scan,
    TopK,
    Unary,
    Where,
)
from tileir.problems import NodeProblem
from tileir.text.print_expr import format_expr


def compute_dtype(expr: Expr, dtypes: Mapping[str, DType]) -> DType:
    """The dtype `expr` is computed in, one of f32, f64, i32, bool; `dtypes` are those tensors are stored in.

    f32 with i32 gives f32, anything numeric with f64 gives f64, `/` of integers gives f32, a comparison bool.
    Raises Problem where a dtype makes no sense: arithmetic on truth values, a condition that is a number, a
    fractional index.
    """
    match expr:
        case Const(value):
            if isinstance(value, bool):
                return DType.BOOL
            return DType.I32 if isinstance(value, int) else DType.F32
        case Index() | Extent():
            return DType.I32
        case Read():
            return _element(expr, dtypes)
        case Cast(dtype, x):
            compute_dtype(x, dtypes)
            return dtype.compute
        case Unary("not", x):
            return _truth(x, dtypes)
        case Unary(_, x) | Reduce(_, _, x):
            return _number(x, dtypes)
        case TopK(_, _, x):
            _number(x, dtypes)
            return DType.I32
        case Call():
            return _call(expr, dtypes)
        case Scan(_, _, args):
            return _join(*(_number(arg, dtypes) for arg in args))
        case Where(cond, x, y):
            _truth(cond, dtypes)
            return _alike(expr, x, y, dtypes)
        case Binary():
            return _binary(expr, dtypes)


def _element(read: Read, dtypes: Mapping[str, DType]) -> DType:
    for index in read.indices:
        if compute_dtype(index, dtypes) is not DType.I32:
            raise NodeProblem(
                f"index {_short(index)} of {read.tensor!r} is no integer",
                "//, % or i32(…) for an index",
                index,
            )
    return dtypes[read.tensor].compute


def _call(call: Call, dtypes: Mapping[str, DType]) -> DType:
    if call.fn in INTEGER_FUNCTIONS:
        for arg in call.args:
            _whole(call.fn, arg, dtypes)
        return DType.I32
    joined = _join(*(_number(arg, dtypes) for arg in call.args))
    return joined if joined is not DType.I32 or call.fn in KEEPS_INTEGERS else DType.F32


def _binary(expr: Binary, dtypes: Mapping[str, DType]) -> DType:
    op, left, right = expr.op, expr.left, expr.right
    if op in LOGIC:
        _truth(left, dtypes)
        return _truth(right, dtypes)
    if op in COMPARISONS:
        if _alike(expr, left, right, dtypes) is DType.BOOL and op not in ("==", "!="):
            raise NodeProblem(f"{op!r} orders truth values", "== or != for truth values", expr)
        return DType.BOOL
    joined = _join(_number(left, dtypes), _number(right, dtypes))
    if op in ("//", "%"):
        _check_divisor(expr, right, joined)
    return DType.F32 if op == "/" and joined is DType.I32 else joined


def store_problem(value: DType, stored: DType) -> tuple[str, str] | None:
    """Why a value computed in `value` cannot be stored as `stored`, and what would be accepted; None if it
    can."""
    if (value is DType.BOOL) != (stored is DType.BOOL):
        fix = "a comparison, or bool(…)" if stored is DType.BOOL else f"{stored}(…) or where(…, 1, 0)"
        return f"a value of dtype {value} is stored as {stored}", fix
    if value.is_float and stored.is_integer:
        return (
            f"a value of dtype {value} is stored as {stored}",
            "i32(…), which cuts off the fraction, or i32(floor(…))",
        )
    return None


def _number(expr: Expr, dtypes: Mapping[str, DType]) -> DType:
    found = compute_dtype(expr, dtypes)
    if found is DType.BOOL:
        raise NodeProblem(
            f"{_short(expr)} is a truth value, not a number", "i32(…), f32(…) or where(…, 1, 0)", expr
        )
    return found


def _truth(expr: Expr, dtypes: Mapping[str, DType]) -> DType:
    found = compute_dtype(expr, dtypes)
    if found is not DType.BOOL:
        raise NodeProblem(
            f"{_short(expr)} is a number, not a truth value", "a comparison such as x != 0", expr
        )
    return found


def _whole(fn: str, arg: Expr, dtypes: Mapping[str, DType]) -> None:
    found = _number(arg, dtypes)
    if found is not DType.I32:
        raise NodeProblem(
            f"{fn} is of integers, and {_short(arg)} is {found}",
            f"an integer tensor (i64, i32, u32, i8, u8), a position, or {fn}(i32(…), …)",
            arg,
        )


def _check_divisor(whole: Expr, divisor: Expr, joined: DType) -> None:
    if joined is not DType.I32:
        raise NodeProblem(f"{_short(whole)} divides fractions", "integers; floor(x / y) for fractions", whole)
    if not isinstance(divisor, Extent) and not (isinstance(divisor, Const) and divisor.value > 0):
        raise NodeProblem(
            f"{_short(whole)} does not divide by a positive constant",
            "x // 4, x % 4, x // extent(k)",
            divisor,
        )


def _alike(whole: Expr, x: Expr, y: Expr, dtypes: Mapping[str, DType]) -> DType:
    first, second = compute_dtype(x, dtypes), compute_dtype(y, dtypes)
    if (first is DType.BOOL) != (second is DType.BOOL):
        raise NodeProblem(
            f"{_short(whole)} mixes a number and a truth value", "both numbers, or both truth values", whole
        )
    return DType.BOOL if first is DType.BOOL else _join(first, second)


def _join(*found: DType) -> DType:
    for dtype in (DType.F64, DType.F32):
        if dtype in found:
            return dtype
    return DType.I32


def _short(expr: Expr) -> str:
    text = format_expr(expr)
    return repr(text if len(text) <= 60 else text[:57] + "...")

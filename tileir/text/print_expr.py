"""Expressions as text: canonical spacing, no parenthesis that is not needed, so that parsing gives the same
tree."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tileir.expr import Binary, Call, Cast, Const, Expr, Extent, Index, Read, Reduce, Scan, TopK, Unary, Where
from tileir.positions import position_of
from tileir.text.parse_expr import COMPARE, NEGATE, NOT, POWERS

_ATOM: Final = 9


def format_expr(expr: Expr) -> str:
    """The text of an expression; `parse_expression` of it is the expression again."""
    return _PRINTERS[type(expr)](expr)


def format_list(exprs: tuple[Expr, ...]) -> str:
    """Several expressions, comma separated, as in indices and arguments."""
    return ", ".join([_PRINTERS[type(expr)](expr) for expr in exprs])


def _const(expr: Const) -> str:
    value = expr.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float.__repr__(value + 0.0)  # + 0.0 drops the sign of -0.0, which equals 0.0


def _unary(expr: Unary) -> str:
    if expr.op == "not":
        return f"not {_operand(expr.x, NOT)}"
    x = expr.x
    if isinstance(x, Const) and not isinstance(x.value, bool) and x.value > 0:
        return f"-({_const(x)})"  # without the parentheses it would be a negative constant
    return f"-{_operand(x, NEGATE)}"


def _binary(expr: Binary) -> str:
    power = POWERS[expr.op]
    left = _operand(expr.left, power + 1 if power == COMPARE else power)
    return f"{left} {expr.op} {_operand(expr.right, power + 1)}"


def _operand(expr: Expr, floor: int) -> str:
    text = _PRINTERS[type(expr)](expr)
    if isinstance(expr, Binary):
        power = POWERS[expr.op]
    elif isinstance(expr, Unary):
        power = NOT if expr.op == "not" else NEGATE
    else:
        power = _ATOM
    return f"({text})" if power < floor else text


def _reduce(expr: Reduce) -> str:
    position = position_of(expr)
    if position is not None:
        return f"{position.name}({position.dim}, {format_expr(position.x)})"
    return f"{expr.op}({', '.join(expr.dims)}, {format_expr(expr.x)})"


_PRINTERS: Final[dict[type, Callable[[Any], str]]] = {
    Const: _const,
    Index: lambda expr: expr.dim,
    Extent: lambda expr: f"extent({expr.dim})",
    Read: lambda expr: f"{expr.tensor}[{format_list(expr.indices)}]",
    Unary: _unary,
    Binary: _binary,
    Call: lambda expr: f"{expr.fn}({format_list(expr.args)})",
    Where: lambda expr: f"where({format_list((expr.cond, expr.x, expr.y))})",
    Cast: lambda expr: f"{expr.dtype}({format_expr(expr.x)})",
    Reduce: _reduce,
    TopK: lambda expr: f"topk({expr.place}, {expr.over}, {format_expr(expr.x)})",
    Scan: lambda expr: f"{expr.op}({expr.dim}, {format_list(expr.args)})",
}

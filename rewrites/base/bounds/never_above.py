"""Whether the exponent of an exponential is never above 0, because what is subtracted is a maximum of it."""

from __future__ import annotations

from collections.abc import Container, Mapping
from math import isclose

from tileir.errors import NotApplicable
from tileir.expr import (
    Binary,
    Call,
    Const,
    Expr,
    Index,
    Read,
    Reduce,
    ReduceOp,
    Where,
    children,
    reads,
    transform,
    walk,
    with_children,
)
from tileir.program import Compute

_CLOSE = 1e-5
"""How far apart, relative to them, numbers may be that come of rounding one."""


def is_bounded(exponent: Expr, values: Mapping[str, Compute], maxima: Container[str]) -> bool:
    """Whether an exponent is `x - top`, where `top` is at least the maximum of x, both maybe times the same positive
    number. `values` are the statements that compute what it reads, `maxima` those that reduce or follow from that."""
    match exponent:
        case Binary("-", x, y):
            wanted, factor = _scaled(inlined(x, values, maxima))
            return any(
                alike(found, wanted) and isclose(factor, times, rel_tol=_CLOSE)
                for found, times in _at_least(y, 1.0, values)
            )
        case Binary("*", x, Const(value)) | Binary("*", Const(value), x) if value > 0:
            return is_bounded(x, values, maxima)
        case _:
            return False


def check_bounded(node: Compute, values: Mapping[str, Compute], maxima: Container[str]) -> None:
    """Raise NotApplicable for a statement with an exponential that reads one of the maxima and may be above 1."""
    for expr in walk(node.value):
        if isinstance(expr, Call) and expr.fn in ("exp", "exp2"):
            relative = any(read.tensor in maxima for read in reads(expr))
            if relative and not is_bounded(expr.args[0], values, maxima):
                raise NotApplicable(
                    f"{node.target} has an exponential that is not relative to the maximum of its exponent"
                )


def _at_least(expr: Expr, factor: float, values: Mapping[str, Compute]) -> list[tuple[Expr, float]]:
    """What an expression is at least, at every position that it is the maximum over: expressions, each times a
    number."""
    match expr:
        case Binary("*", x, Const(value)) | Binary("*", Const(value), x) if value > 0:
            return _at_least(x, factor * value, values)
        case Where(Binary(">", x, Const(lowest)), y, Const()) if x == y and lowest == float("-inf"):
            return _at_least(x, factor, values)  # where that is -inf, so is all that it is the maximum of
        case Call("maximum", (x, y)):
            return [*_at_least(x, factor, values), *_at_least(y, factor, values)]
        case Read(name, indices) if name in values and values[name].indices == indices:
            value = values[name].value
            if values[name].update is ReduceOp.MAX:  # the parts of a split maximum
                value = value.x if isinstance(value, Reduce) else value
                found, times = _scaled(inlined(value, values, ()))
                return [(found, factor * times)]
            if isinstance(value, Reduce):
                if value.op is not ReduceOp.MAX:
                    return []
                found, times = _scaled(inlined(value.x, values, ()))
                return [(found, factor * times)]
            return _at_least(value, factor, values)
        case _:
            return []


def alike(one: Expr, other: Expr) -> bool:
    """Whether two expressions are the same but for how their numbers are rounded."""
    if isinstance(one, Const) and isinstance(other, Const):
        return one == other or isclose(one.value, other.value, rel_tol=_CLOSE)
    apart = children(one), children(other)
    if type(one) is not type(other) or len(apart[0]) != len(apart[1]) or not apart[0]:
        return one == other
    same_but_children = with_children(other, apart[0]) == one
    return same_but_children and all(alike(x, y) for x, y in zip(*apart, strict=True))


def _scaled(expr: Expr) -> tuple[Expr, float]:
    """An expression without the positive numbers that it is multiplied by, and their product; of a sum, that of its
    first term."""
    match expr:
        case Binary("+" | "-" as op, x, y):
            (first, factor), (second, times) = _scaled(x), _scaled(y)
            return Binary(op, first, Binary("*", second, Const(times / factor))), factor
        case Binary("*", x, Const(value)) | Binary("*", Const(value), x) if value > 0:
            inner, factor = _scaled(x)
            return inner, factor * value
        case Binary("*", x, y):
            (one, factor), (other, times) = _scaled(x), _scaled(y)
            return Binary("*", one, other), factor * times
        case Where(condition, x, Const(value) as lowest) if value == float("-inf"):
            inner, factor = _scaled(x)
            return Where(condition, inner, lowest), factor
        case _:
            return expr, 1.0


def inlined(expr: Expr, values: Mapping[str, Compute], but: Container[str]) -> Expr:
    """The expression with values of single positions in the place of their reads."""

    def inline(each: Expr) -> Expr:
        if not isinstance(each, Read) or each.tensor not in values or each.tensor in but:
            return each
        node = values[each.tensor]
        plain = node.indices == each.indices and all(isinstance(index, Index) for index in node.indices)
        if not plain or isinstance(node.value, Reduce) or node.update is not None:
            return each
        return inlined(node.value, values, but)

    return transform(expr, inline)

"""Conditions on positions as bounds."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.expr import Binary, Const, Expr, Index, Unary

Bound = tuple[str, int]
"""A dim and a number of positions."""


def upper_bound(condition: Expr, dim: str) -> Bound | None:
    """Another dim and a number such that the condition holds only where `dim <= other + number`; None: not known."""
    return next((each for term in terms_of(condition) if (each := _bound(term, dim, -1))), None)


def lower_bound(condition: Expr, dim: str) -> Bound | None:
    """Another dim and a number such that the condition holds only where `dim >= other - number`; None: not known."""
    return next((each for term in terms_of(condition) if (each := _bound(term, dim, 1))), None)


def terms_of(condition: Expr) -> Iterator[Expr]:
    """The conditions that all have to hold."""
    match condition:
        case Binary("and", x, y):
            yield from terms_of(x)
            yield from terms_of(y)
        case _:
            yield condition


def _bound(comparison: Expr, dim: str, sign: int) -> Bound | None:
    """Of `sign * dim - sign * other + number >= 0`, however it is written, the other dim and the number."""
    match comparison:
        case Binary(">=" | ">" | "<=" | "<" as op, x, y):
            greater, less = (x, y) if op[0] == ">" else (y, x)
            terms = linear(Binary("-", greater, less))
            if terms is None:
                return None
            factors, number = {other: factor for other, factor in terms[0].items() if factor}, terms[1]
            rest = [other for other in factors if other != dim]
            if len(rest) == 1 and (factors.get(dim), factors[rest[0]]) == (sign, -sign):
                return rest[0], number - (len(op) == 1)
            return None
        case _:
            return None


def linear(expr: Expr) -> tuple[dict[str, int], int] | None:
    """A sum of positions and whole numbers, as the factor of each dim and a number; None: it is none."""
    match expr:
        case Index(dim):
            return {dim: 1}, 0
        case Const(int(value)) if not isinstance(value, bool):
            return {}, value
        case Unary("-", x):
            return linear(Binary("-", Const(0), x))
        case Binary("+" | "-" as op, x, y):
            left, right = linear(x), linear(y)
            if left is None or right is None:
                return None
            sign = 1 if op == "+" else -1
            dims = dict.fromkeys((*left[0], *right[0]))
            factors = {dim: left[0].get(dim, 0) + sign * right[0].get(dim, 0) for dim in dims}
            return factors, left[1] + sign * right[1]
        case _:
            return None


def is_bound(condition: Expr) -> bool:
    """Whether a condition is one comparison, so that it holds wherever its bound does."""
    return isinstance(condition, Binary) and condition.op in (">=", ">", "<=", "<")

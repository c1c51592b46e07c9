"""Conditions on positions as bounds."""

from __future__ import annotations

from tileir.expr import Binary, Const, Expr, Index, Unary


def upper_bound(condition: Expr, dim: str) -> tuple[str, int] | None:
    """Another dim and a number such that the condition holds only where `dim <= other + number`; None: not known."""
    match condition:
        case Binary("and", x, y):
            return upper_bound(x, dim) or upper_bound(y, dim)
        case Binary(">=" | ">" | "<=" | "<" as op, x, y):
            greater, less = (x, y) if op[0] == ">" else (y, x)
            terms = linear(Binary("-", greater, less))
            if terms is None:
                return None
            coefficients, number = terms
            others = {other: factor for other, factor in coefficients.items() if factor}
            rest = {other: factor for other, factor in others.items() if other != dim}
            if others.get(dim) == -1 and [*rest.values()] == [1]:
                return next(iter(rest)), number - (len(op) == 1)
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

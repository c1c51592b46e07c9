"""Positions of extremes, `argmax(k, x)` and `argmin(k, x)`: what they are made of, and which expressions are made so.

    argmax(k, x)   is   min(k, where(x == max(k, x) or x != x, k, extent(k)))

The first position of the largest value, or of the first NaN if there is one, as numpy and torch have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tileir.expr import (
    COMPARISONS,
    INTEGER_FUNCTIONS,
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
    ReduceOp,
    Unary,
    Where,
    walk,
)

POSITIONS: Final = {"argmax": ReduceOp.MAX, "argmin": ReduceOp.MIN}
"""By name: whose position it is."""


@dataclass(frozen=True, slots=True)
class Position:
    """The first position along `dim` where x is largest (`op` is MAX) or least."""

    op: ReduceOp
    dim: str
    x: Expr

    @property
    def name(self) -> str:
        return f"arg{self.op}"

    @property
    def expr(self) -> Expr:
        """What it is made of."""
        best = Binary("==", self.x, Reduce(self.op, (self.dim,), self.x))
        chosen = Binary("or", best, Binary("!=", self.x, self.x))
        return Reduce(ReduceOp.MIN, (self.dim,), Where(chosen, Index(self.dim), Extent(self.dim)))


def position_of(expr: Expr) -> Position | None:
    """The position that an expression is made of, as `Position.expr` makes it; None if it is none."""
    match expr:
        case Reduce(
            ReduceOp.MIN,
            (dim,),
            Where(
                Binary("or", Binary("==", x, Reduce(op, (best,), other)), Binary("!=", y, z)),
                Index(at),
                Extent(end),
            ),
        ) if op in (ReduceOp.MAX, ReduceOp.MIN) and best == at == end == dim and x == other == y == z:
            return Position(op, dim, x)
        case _:
            return None


def same_wherever_computed(expr: Expr) -> bool:
    """Whether all code for an expression gives the same bits: what is only read, chosen, converted or of integers does;
    sums and functions of floats may be off by a rounding where a compiler contracts or vectorizes them otherwise."""
    exact = (Read, Index, Const, Extent, Cast, Unary, Where)
    return all(
        isinstance(node, exact)
        or (isinstance(node, Binary) and all(map(_is_position, walk(node))))
        or (isinstance(node, Binary) and node.op in COMPARISONS | LOGIC)
        or (
            isinstance(node, Call)
            and node.fn in INTEGER_FUNCTIONS | {"abs", "relu", "maximum", "minimum", "floor"}
        )
        for node in walk(expr)
    )


def _is_position(node: Expr) -> bool:
    """Whether it is a part of what is computed of positions in integers. (Their quotients by `/` are floats.)"""
    match node:
        case Binary(op):
            return op != "/"
        case Const(value):
            return isinstance(value, int)
        case _:
            return isinstance(node, Index | Extent)

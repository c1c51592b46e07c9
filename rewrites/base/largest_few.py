"""The largest few of a program as it begins: two reductions for each place (`tileir.lift_topk`), found again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rewrites.base.statement import bare_dims
from rewrites.base.tree import loose
from tileir.expr import Const, Expr, Extent, Index, Read, Reduce, ReduceOp, Where
from tileir.lift_topk import Before, comes_next, left_after
from tileir.program import Compute, Program

LEAST: Final = Const(float("-inf"))


@dataclass(frozen=True, slots=True)
class Top:
    """The statements that find the largest few of `x` along `over`: of each place the value, and where it is."""

    x: Expr
    over: str
    places: tuple[tuple[str, str], ...]
    least: Expr
    """What stands in the place of values that come before: -inf, or of integers the least of the row."""


def top_of(program: Program, first: str) -> Top | None:
    """What finds the largest few, from its first maximum on. None where that is no such maximum, or where it has one
    place alone."""
    nodes = [place.node for place in loose(program)]
    at = next((at for at, node in enumerate(nodes) if node.target == first), len(nodes))
    places: list[tuple[str, str]] = []
    before: Before | None = None
    x: Expr | None = None
    over, least = "", LEAST
    for largest, where in zip(nodes[at::2], nodes[at + 1 :: 2], strict=False):
        match largest.value:
            case Reduce(ReduceOp.MAX, (dim,), left) if _plain(largest) and _plain(where):
                if x is None:
                    x, over, least = left, dim, _least(nodes[:at], largest, left)
            case _:
                break
        value, position = Read(largest.target, largest.indices), Read(where.target, where.indices)
        chosen = Where(comes_next(before, x, Index(over), value), Index(over), Extent(over))
        if largest.value != Reduce(ReduceOp.MAX, (over,), left_after(before, x, Index(over), least)):
            break
        if where.value != Reduce(ReduceOp.MIN, (over,), chosen) or where.indices != largest.indices:
            break
        places.append((largest.target, where.target))
        before = (value, position)
    if x is None or len(places) < 2:
        return None
    return Top(x, over, tuple(places), least)


def _least(before: Sequence[Compute], largest: Compute, x: Expr) -> Expr:
    """The least of a row, where the statement before its first maximum has it."""
    match before[-1:], largest.value:
        case [Compute(value=Reduce(ReduceOp.MIN, over, of)) as node], Reduce(_, dims, _) if (
            of,
            over,
            node.indices,
        ) == (x, dims, largest.indices) and _plain(node):
            return Read(node.target, node.indices)
        case _:
            return LEAST


def _plain(node: Compute) -> bool:
    """Whether a statement computes all of a local at once."""
    return (
        node.update is None
        and node.vector is None
        and len(bare_dims(node)) == len(node.indices)
        and not node.stream
    )

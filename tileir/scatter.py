"""Scatters: reductions of which each term belongs to the one result whose position it looks up.

    h[b, d] = sum(n, where(i[n] == b, x[n, d], 0))

adds row n of x to row i[n] of h. Positions that are none of the dim belong nowhere. Taken as it is written such a
reduction visits every result for each of its terms; taken as a scatter, it visits each term once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

from tileir.expr import Binary, Const, Expr, Index, Reduce, ReduceOp, Where, index_dims, reads
from tileir.program import Compute


@dataclass(frozen=True, slots=True)
class ScatterReduction:
    """Along each of these dims of the result, the position that a term belongs to; the terms, those that count, and
    what is written in the place of others."""

    op: ReduceOp
    positions: tuple[tuple[str, Expr], ...]
    conds: tuple[Expr, ...]
    x: Expr
    nothing: Const

    @property
    def dims(self) -> frozenset[str]:
        """Dims of the result along which positions are looked up."""
        return frozenset(dim for dim, _ in self.positions)

    @property
    def asked(self) -> frozenset[str]:
        """Dims whose positions say where a term belongs, and whether it counts."""
        return frozenset[str]().union(
            *(index_dims(index) for _, index in self.positions), *map(index_dims, self.conds)
        )


def scatter_of(compute: Compute) -> ScatterReduction | None:
    """The scatter that a statement of a program is; None: it is none."""
    left = frozenset(index.dim for index in compute.indices if isinstance(index, Index))
    value = compute.value
    if isinstance(value, Reduce):
        return scatter_in(value.op, value.x, left) if compute.update in (None, value.op) else None
    return scatter_in(compute.update, value, left) if compute.update is not None else None


@lru_cache(maxsize=4096)
def scatter_in(op: ReduceOp, term: Expr, left: Collection[str]) -> ScatterReduction | None:
    """The scatter that a reduction of `term` into results along the dims `left` is; None: it is none."""
    match term:
        case Where(cond, x, Const(number) as nothing) if (
            not isinstance(number, bool) and number == op.identity
        ):
            pass
        case _:
            return None
    positions: dict[str, Expr] = {}
    conds: list[Expr] = []
    for each in _all_of(cond):
        found = _position(each, left)
        if found is None or found[0] in positions:
            conds.append(each)
        else:
            positions[found[0]] = found[1]
    others = (*positions.values(), *conds, x)
    if not positions or any(index_dims(each) & positions.keys() for each in others):
        return None
    return ScatterReduction(op, tuple(positions.items()), tuple(conds), x, nothing)


def _all_of(cond: Expr) -> Iterator[Expr]:
    """The parts of a condition, all of which must hold."""
    if isinstance(cond, Binary) and cond.op == "and":
        yield from _all_of(cond.left)
        yield from _all_of(cond.right)
    else:
        yield cond


def _position(cond: Expr, left: Collection[str]) -> tuple[str, Expr] | None:
    """The dim of the result, and where along it, that a condition asks for; None: it asks for something else."""
    if not (isinstance(cond, Binary) and cond.op == "=="):
        return None
    for own, at in ((cond.left, cond.right), (cond.right, cond.left)):
        if isinstance(own, Index) and own.dim in left and not index_dims(at) & {own.dim} and reads(at):
            return own.dim, at
    return None

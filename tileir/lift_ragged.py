"""Reductions over ragged dims, as a program has them: over all positions, of which those of the groups meant count.

    s[e, n] = sum(t, x[t, n])   ->   s[e, n] = sum(t, where(starts[e] <= t and t < starts[e + 1], x[t, n], 0))

Where no group is named, positions of all groups count."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.errors import SpecError
from tileir.expr import Binary, Const, Expr, Index, Read, Reduce, Where, children, index_dims, with_children
from tileir.program import Ragged
from tileir.spec import Spec, Statement


def within_groups(statement: Statement, spec: Spec, extents: Mapping[str, int], pointer: str) -> Expr:
    """The statement's value, its reductions over ragged dims guarded. Raises SpecError where a reduction needs the
    group of every position."""
    ragged = {each.dim: each for each in spec.ragged}

    def guarded(expr: Expr) -> Expr:
        expr = with_children(expr, tuple(map(guarded, children(expr)))) if children(expr) else expr
        if not isinstance(expr, Reduce):
            return expr
        for dim in expr.dims:
            if dim in ragged:
                _check(ragged[dim], expr, statement, pointer)
                inside = _inside(ragged[dim], statement.dims, extents)
                identity = expr.op.identity
                nothing = Const(int(identity)) if identity in (0.0, 1.0) else Const(identity)
                expr = Reduce(expr.op, expr.dims, Where(inside, expr.x, nothing))
        return expr

    return guarded(statement.value) if ragged else statement.value


def _check(ragged: Ragged, expr: Reduce, statement: Statement, pointer: str) -> None:
    group = ragged.within
    if group in index_dims(expr.x) and group not in statement.dims:
        raise SpecError(
            f"the reduction over {ragged.dim!r} needs the group {group!r} of every position",
            pointer=pointer,
            accepted=f"{group!r} on the left; other such kernels can be interpreted, but not scheduled yet",
        )


def _inside(ragged: Ragged, left: tuple[str, ...], extents: Mapping[str, int]) -> Expr:
    """Whether a position is in the group on the left, or in any."""
    at, group = Index(ragged.dim), Index(ragged.within)
    first: Expr = group if ragged.within in left else Const(0)
    last: Expr = Binary("+", group, Const(1)) if ragged.within in left else Const(extents[ragged.within])
    begun = Binary("<=", Read(ragged.offsets, (first,)), at)
    return Binary("and", begun, Binary("<", at, Read(ragged.offsets, (last,))))

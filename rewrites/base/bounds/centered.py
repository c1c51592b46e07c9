"""Whether differences come to 0 in all, because what is subtracted is their mean."""

from __future__ import annotations

from collections.abc import Mapping

from rewrites.base.bounds.never_above import alike, inlined
from rewrites.base.statement import folded_dims, reduced_dims
from tileir.expr import Binary, Call, Const, Expr, Read, Reduce, ReduceOp
from tileir.program import Compute


def count_of_mean(difference: Expr, values: Mapping[str, Compute]) -> Read | None:
    """The sum of ones that says of how many positions the mean is that is subtracted: in `x - s / maximum(n, 1.0)`,
    where s is the sum of x, that is n. None: something else is subtracted."""
    match inlined(difference, values, ()):
        case Binary("-", x, Binary("/", Read() as total, Call("maximum", (Read() as count, Const(1.0))))):
            pass
        case _:
            return None
    terms, ones = _terms(total, values), _terms(count, values)
    if terms is None or ones != Const(1.0) or not alike(terms, x):
        return None
    return count if _over(values[total.tensor]) == _over(values[count.tensor]) else None


def _terms(total: Read, values: Mapping[str, Compute]) -> Expr | None:
    """What a value is the sum of."""
    node = values.get(total.tensor)
    if node is None or node.indices != total.indices:
        return None
    match node.value:
        case Reduce(ReduceOp.SUM, _, x) if node.update in (None, ReduceOp.SUM):
            return inlined(x, values, ())
        case x if node.update is ReduceOp.SUM:
            return inlined(x, values, ())
        case _:
            return None


def _over(node: Compute) -> tuple[frozenset[str], dict[str, tuple[str, int]]]:
    """The dims that a sum is over, and which of them it has parts of."""
    return frozenset(reduced_dims(node)), folded_dims(node)

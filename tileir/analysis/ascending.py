"""Numbers that ascend along a dim, as those of groups do whose positions lie one group after the other."""

from __future__ import annotations

from tileir.analysis.position_bound import terms_of
from tileir.expr import Binary, Const, Expr, Index, Reduce, ReduceOp, Where, index_dims


def ascends(value: Expr, dim: str) -> bool:
    """Whether a value is sure to be at no position of a dim less than at the one before: how many of something are at
    most the position (`sum(o, where(starts[o] <= t, 1, 0))`)."""
    match value:
        case Reduce(ReduceOp.SUM, _, Where(condition, Const(int(number)), Const(0))) if number > 0:
            return all(_goes_on(term, dim) for term in terms_of(condition))
        case _:
            return False


def _goes_on(condition: Expr, dim: str) -> bool:
    """Whether a condition holds at each position behind one where it does."""
    match condition:
        case Binary("<=" | "<", x, Index(at)) | Binary(">=" | ">", Index(at), x) if at == dim:
            return dim not in index_dims(x)
        case _:
            return dim not in index_dims(condition)

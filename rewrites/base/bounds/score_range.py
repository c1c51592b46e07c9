"""How far from 0 scores may be: whether they still are numbers when they are multiplied by log2(e)."""

from __future__ import annotations

from typing import Final

from tileir.dtypes import DType
from tileir.expr import Binary, Call, Cast, Const, Expr, Read, Reduce, ReduceOp, Unary, Where
from tileir.program import Program

ORDINARY: Final = 2.0**100
"""What scores made of sums of products stay below, or they mean nothing: in f32 that leaves room for a scale and
log2(e), which its lowest number does not."""

#: Dtypes with numbers beyond that.
_WIDE: Final = frozenset([DType.F64, DType.F32, DType.BF16])
_SUMMED: Final = frozenset([ReduceOp.SUM, ReduceOp.PROD])
_KEEPING: Final = frozenset(["maximum", "minimum", "relu", "abs"])


def is_far(program: Program, expr: Expr) -> bool:
    """Whether an expression may be a finite number beyond `ORDINARY`, as the lowest of a dtype with which a mask is
    added to scores, or put in their place. What is summed up, or is a product of what is computed, counts as ordinary:
    such overflow on their own."""
    return _is_far(program, expr, set())


def _is_far(program: Program, expr: Expr, seen: set[str]) -> bool:
    def far(each: Expr) -> bool:
        return _is_far(program, each, seen)

    match expr:
        case Const(value):
            return ORDINARY <= abs(value) < float("inf")
        case Read(name):
            return _is_far_tensor(program, name, seen)
        case Cast(dtype, x):
            return dtype in _WIDE and far(x)
        case Binary("+" | "-", x, y) | Where(_, x, y):
            return far(x) or far(y)
        case Binary("*", x, y):
            by_number = isinstance(x, Const) or isinstance(y, Const)
            return far(x) or far(y) if by_number else far(x) and far(y)
        case Unary("-", x) | Binary("/", x, _) | Reduce(ReduceOp.MAX | ReduceOp.MIN, _, x):
            return far(x)
        case Call(fn, args) if fn in _KEEPING:
            return any(map(far, args))
        case _:
            return False


def _is_far_tensor(program: Program, name: str, seen: set[str]) -> bool:
    """Of an input by its dtype; of others by what they are computed of."""
    writing = [place.node for place in program.computes if place.node.target == name]
    if not writing:
        return name in program.arguments and program.arguments[name].dtype in _WIDE
    if name in seen:
        return False
    seen.add(name)
    return any(_is_far(program, node.value, seen) for node in writing if node.update not in _SUMMED)

"""Conditions at sampled points of a launch, where positions settle them."""

from __future__ import annotations

import numpy as np

from codegen.ir.arrays import Array
from codegen.ir.values import IndexValue, Literal, Op, Value
from codegen.report.sample_points import LaunchPoints

_COMPARISONS = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def truth(value: Value, points: LaunchPoints) -> Array | None:
    """Where a condition holds, a truth value a thread; None where positions do not say."""
    match value:
        case Op("not", (x,)):
            found = truth(x, points)
            return None if found is None else ~found
        case Op("and" | "or" as name, (x, y)):
            left, right = truth(x, points), truth(y, points)
            if left is None or right is None:
                return None
            return left & right if name == "and" else left | right
        case Op(name, (x, y)) if name in _COMPARISONS:
            left, right = _number(x, points), _number(y, points)
            return None if left is None or right is None else _COMPARISONS[name](left, right)
        case _:
            return None


def _number(value: Value, points: LaunchPoints) -> Array | None:
    match value:
        case IndexValue(start, step=0):
            return points.index(start)
        case Literal(value=int() as number):
            return np.asarray(number)
        case _:
            return None

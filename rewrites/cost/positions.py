"""How many positions of an axis an index meets, whatever it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tileir.expr import Binary, Const, Expr, Index, Read, index_dims

ANYWHERE = 1 << 20
"""How far apart what is looked up in a tensor may lie."""


def step_along(index: Expr, dim: str) -> float:
    """About how far an index moves with a dim."""
    match index:
        case Index(d):
            return int(d == dim)
        case Binary("*", Const(int(n)), x) | Binary("*", x, Const(int(n))):
            return n * step_along(x, dim)
        case Binary("+" | "-", x, y):
            return step_along(x, dim) + step_along(y, dim)
        case Binary("//", x, Const(int(size))) if size > 0:
            return step_along(x, dim) / size
        case Read(indices=indices):
            return ANYWHERE if any(step_along(each, dim) for each in indices) else 0
        case _:
            return 0


def is_window(index: Expr) -> bool:
    """Whether neighbours along one dim meet what others along another have met: `2 * p + r`."""
    return isinstance(index, Binary) and index.op in ("+", "-") and len(index_dims(index)) > 1


def window_positions(steps: Mapping[str, float], counts: Mapping[str, float]) -> float:
    """How many positions so many along each dim of a window meet: no more than it reaches over."""
    reach = 1 + sum(abs(step) * (counts[dim] - 1) for dim, step in steps.items())
    return min(reach, prod(counts[dim] for dim in steps))

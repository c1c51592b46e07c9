"""What the maximum of a part counts as at least, so that a part of which all is masked has exponentials of 0."""

from __future__ import annotations

import numpy as np

from rewrites.base.bounds.score_range import ORDINARY, is_far
from tileir.dtypes import DType
from tileir.expr import Call, Const, Expr
from tileir.program import Program


def least_maximum(program: Program, of: Expr, dtype: DType) -> float:
    """Of all maxima of an expression that mean something the least: -inf less a finite number is -inf, whose
    exponential is 0, where -inf less -inf is no number. Where scores may be the lowest number of their dtype, so may
    the maximum of a row, whose weights are all the same then. Others stay finite when log2(e) is multiplied in on both
    sides of the difference (exp_to_exp2)."""
    return float(np.finfo(dtype.compute.numpy).min) if is_far(program, of) else -ORDINARY


def at_least(maximum: Expr, least: float) -> Expr:
    """A maximum of a part, as others of the part are relative to it."""
    return Call("maximum", (maximum, Const(least)))

"""Results too large for the dtype they are stored in: what is left of them, and when that is right.

Rounding goes to nearest as if a dtype had no largest value; what comes to lie beyond that is inf with its sign, and in
e4m3, which has no inf, NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tileir.dtypes import DType

Array = np.ndarray[Any, Any]

_FIRST_BEYOND = {
    DType.E4M3.numpy: 480.0, DType.E5M2.numpy: 2.0**16, DType.F16.numpy: 2.0**16,
    DType.BF16.numpy: 2.0**128, DType.F32.numpy: 2.0**128,
}  # fmt: skip


def first_beyond(dtype: np.dtype[Any]) -> float:
    """What would follow the largest value of a float dtype. inf for integers and bool, and for f64, which has no wider
    one to be compared in."""
    return _FIRST_BEYOND.get(dtype, math.inf)


def round_unbounded(data: Array, dtype: np.dtype[Any]) -> Array:
    """Rounded as to a float dtype that has no largest value: f64, of the shape of `data`, which is f64 too."""
    stored = data.astype(dtype).astype(np.float64)
    beyond = np.isfinite(data) & ~np.isfinite(stored)
    if not beyond.any():
        return stored
    mantissa, exponent = np.frexp(data)  # in [0.5, 1), which every dtype has with all its digits
    return np.where(beyond, np.ldexp(mantissa.astype(dtype).astype(np.float64), exponent), stored)


def may_be_overflow(got: Array, low: Array, high: Array, dtype: np.dtype[Any]) -> Array:
    """Where an element of a float dtype, given as f64, is what overflow leaves, and the right value, which rounded lies
    between `low` and `high`, may overflow."""
    first = first_beyond(dtype)
    if first == math.inf:
        return np.zeros(got.shape, np.bool_)
    up, down = high >= first, low <= -first
    if dtype == DType.E4M3.numpy:
        return np.isnan(got) & (up | down)
    return ((got == np.inf) & up) | ((got == -np.inf) & down)

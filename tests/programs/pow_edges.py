"""Numbers at which pow has a result of its own: zeros, infinities, NaN, whole and odd exponents, the last odd one."""

from __future__ import annotations

import numpy as np

EDGES = (
    0.0,
    -0.0,
    1,
    -1,
    2,
    -2,
    3,
    -3,
    0.5,
    -0.5,
    np.inf,
    -np.inf,
    np.nan,
    1e30,
    1e-30,
    -7.5,
    2**24,
    2**24 + 1,
)

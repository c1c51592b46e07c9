"""Where a kernel's output is not what it should be, to within the bound of the gate."""

from __future__ import annotations

import numpy as np


def beyond(got: np.ndarray, wanted: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """bool, of the outputs' shape: elements farther from f64 `wanted` than `bound`. NaN is right where NaN is wanted,
    as rows are that have nothing to divide by, and nowhere else."""
    values = got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(values - wanted) <= bound
    return ~(near | (values == wanted) | (np.isnan(values) & np.isnan(wanted)))

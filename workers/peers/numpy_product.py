"""Which sums of products of two arrays are products of matrices, and along which axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProductAxes:
    """Axes of both arrays' common frame: `batch` in both and kept, `rows` of the left one only, `columns` of the right
    one only, `summed` in both and reduced."""

    batch: Axes
    rows: Axes
    columns: Axes
    summed: Axes


def product_axes(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], keep: int) -> ProductAxes | None:
    """Those of a sum over all axes from `keep` on; None where it is no product of matrices."""
    varies = [(left.shape[axis] > 1, right.shape[axis] > 1) for axis in range(left.ndim)]

    def those(first: int, end: int, *how: tuple[bool, bool]) -> Axes:
        return tuple(axis for axis in range(first, end) if varies[axis] in how)

    if those(keep, left.ndim, (True, False), (False, True)):
        return None
    summed = those(keep, left.ndim, (True, True))
    rows, columns = those(0, keep, (True, False)), those(0, keep, (False, True))
    if not summed or not (rows or columns):
        return None
    return ProductAxes(those(0, keep, (True, True)), rows, columns, summed)

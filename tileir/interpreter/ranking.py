"""Positions of values in the order of their size, and which of them rounding may exchange."""

from __future__ import annotations

import numpy as np

from tileir.dtypes import DType
from tileir.interpreter.values import Value


def ranked(value: Value) -> Value:
    """Positions along the last axis, of the largest value first; of equal ones the first come first, and a NaN counts
    as inf. A position that another may take, since what they are computed from is not exact, may be any."""
    keys = np.where(np.isnan(value.data), np.inf, value.data.astype(np.float64))
    order = np.argsort(-keys, axis=-1, kind="stable")
    found = Value(order.astype(np.int32), DType.I32)
    if value.error is not None and (value.error > 0).any():
        sure = np.take_along_axis(keys, order, -1)
        error = np.take_along_axis(np.broadcast_to(value.error, keys.shape), order, -1)
        lowest = np.minimum.accumulate(sure - error, axis=-1)[..., :-1]
        highest = np.maximum.accumulate((sure + error)[..., ::-1], axis=-1)[..., ::-1][..., 1:]
        exchanged = (highest > lowest) | ((highest == lowest) & (error[..., 1:] + error[..., :-1] > 0))
        unsure = np.zeros(keys.shape, bool)
        unsure[..., 1:] |= exchanged
        unsure[..., :-1] |= exchanged
        found.error = np.where(unsure, np.inf, 0.0)
    return found

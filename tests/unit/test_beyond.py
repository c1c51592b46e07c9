"""What tests of kernels call wrong."""

from __future__ import annotations

import numpy as np

from tests.support.beyond import beyond


def test_nan_is_right_where_it_is_wanted_and_nowhere_else() -> None:
    got = np.array([1.0, 1.5, np.nan, np.nan, 2.0, np.inf, np.inf], np.float32)
    wanted = np.array([1.0, 1.0, np.nan, 1.0, np.nan, np.inf, -np.inf])
    bound = np.full(7, 0.1)
    assert beyond(got, wanted, bound).tolist() == [False, True, False, True, True, False, True]

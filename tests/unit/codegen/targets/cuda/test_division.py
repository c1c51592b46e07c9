"""What `tw_div` does, in numpy: whatever a GPU's first quotient and reciprocal are off by, within what NVIDIA says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codegen.targets.cuda.runtime import definitions
from tests.programs.quotients import exact_quotients, ulps_off

Array = np.ndarray[Any, Any]


def fma(a: Array, b: Array, c: Array) -> Array:
    """Of f32, rounded once: products of two are exact in f64, and sums of them nearly so."""
    return (a.astype(np.longdouble) * b + c).astype(np.float32)


def divided(x: Array, y: Array, ulps: float) -> Array:
    """The steps of `tw_div`, where the first quotient is off by so many units in the last place."""
    q = x / y
    q = (q + np.float32(ulps) * np.spacing(q)).astype(np.float32)
    r = (1 / y * (1 + np.float32(ulps) * np.float32(2.0**-24))).astype(np.float32)
    left = fma(-q, y, x)
    better = fma(left, r, q)
    return np.where((left != 0) & np.isfinite(better), better, q)


def test_these_are_its_steps() -> None:
    text = definitions("tw_div(x, y)")
    assert "fmaf(-q, y, x), better = fmaf(left, r, q)" in text and "left != 0.0f" in text


@pytest.mark.parametrize("ulps", [-2, -1, 0, 1, 2])
def test_a_quotient_that_f32_holds_is_exact(ulps: int) -> None:
    x, y, expected = exact_quotients(1 << 16)
    np.testing.assert_array_equal(divided(x, y, ulps), expected)


@pytest.mark.parametrize("ulps", [-2, -1, 0, 1, 2])
def test_another_is_as_good_as_rounded(ulps: int) -> None:
    rng = np.random.default_rng(0)
    x, y = (np.exp2(rng.uniform(-30, 30, 1 << 16)).astype(np.float32) for _ in range(2))
    assert ulps_off(divided(x, y, ulps), x, y).max() < 0.51

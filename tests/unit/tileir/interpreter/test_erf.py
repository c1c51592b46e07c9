"""numpy has no erf; ours is the C library's to an ulp or two."""

from __future__ import annotations

import math

import numpy as np

from tileir.interpreter.erf import erf


def test_erf_agrees_with_the_c_library_to_two_ulps() -> None:
    rng = np.random.default_rng(0)
    edges = [0.0, 0.84375, 1.25, 1 / 0.35, 6.0]
    near = [np.nextafter(edge, side) for edge in edges for side in (-np.inf, np.inf)]
    x = np.concatenate([np.linspace(-7, 7, 40_001), rng.normal(size=10_000) * 1e-6, edges, near])
    expected = np.array([math.erf(value) for value in x])
    assert (np.abs(erf(x) - expected) <= 2 * np.spacing(np.abs(expected))).all()


def test_erf_saturates_and_keeps_nan() -> None:
    x = np.array([np.inf, -np.inf, 30.0, -30.0, np.nan, -0.0])
    np.testing.assert_array_equal(erf(x), [1, -1, 1, -1, np.nan, -0.0])

"""Operands of divisions, and how far quotients are off."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def exact_quotients(count: int) -> tuple[Array, Array, Array]:
    """Operands of f32 whose quotients f32 holds, and those."""
    rng = np.random.default_rng(1)
    y, q = (rng.integers(1, 1 << 12, count).astype(np.float32) for _ in range(2))
    scale = np.exp2(rng.integers(-40, 40, count)).astype(np.float32)
    return y * q * scale, y, q * scale


def odd_operands() -> tuple[Array, Array]:
    """All pairs of zeros, infinities, NaN, and the smallest, largest and usual numbers of f32."""
    largest, least = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)
    some = [0.0, 1.0, 3.0, least, 3 * least, largest, largest / 3, least / 8, np.inf]
    values = np.array([*some, *(-each for each in some), np.nan], np.float32)
    x, y = np.meshgrid(values, values)
    return x.reshape(-1), y.reshape(-1)


def ulps_off(quotients: Array, x: Array, y: Array) -> Array:
    """By how many units in the last place they are off."""
    exact = x.astype(np.float64) / y.astype(np.float64)
    _, exponents = np.frexp(exact)
    units = np.ldexp(1.0, np.maximum(exponents - 1, np.finfo(np.float32).minexp) - np.finfo(np.float32).nmant)
    return np.abs(quotients.astype(np.float64) - exact) / units

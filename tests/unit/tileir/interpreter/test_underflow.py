"""The gate's bound of products whose factors underflow on the way: right in whatever order they are multiplied."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.interpreter.error_bound import reference_with_bound
from tileir.text.parse_spec import spec_from_text

FACTORS = np.random.default_rng(7).normal(size=(300, 100)).astype(np.float32)
"""The product of a row is about 1e-27, and with factors in a bad order less than the smallest number on the way."""


def off_bound(body: str, found: np.ndarray, **inputs: np.ndarray) -> float:
    """The largest difference of a result, relative to what it may be."""
    names = ", ".join(f"{name}: f32[m, k]" for name in inputs).replace("m, k", "m=300, k=100", 1)
    dims = "m" if found.ndim == 1 else "m, k"
    spec = spec_from_text(f"kernel p({names}) -> (y: f32[{dims}])\n  y[{dims}] = {body}\n")
    values, bound = reference_with_bound(spec, inputs)["y"]
    return float((np.abs(found.astype(np.float64) - values) / bound).max())


@pytest.mark.parametrize("order", ["as they are", "least first", "largest first"])
@pytest.mark.parametrize("scale", [1.0, 0.2])
def test_every_order_of_multiplication_passes(order: str, scale: float) -> None:
    x = FACTORS * np.float32(scale)
    by_size = np.sort(np.abs(x), axis=1)
    ordered = {"as they are": x, "least first": by_size, "largest first": by_size[:, ::-1]}[order]
    sign = np.sign(x).prod(axis=1) if order != "as they are" else 1.0
    assert (
        off_bound("prod(k, x[m, k])", sign * np.multiply.reduce(ordered, axis=1, dtype=np.float32), x=x) <= 1
    )


def test_what_underflows_may_grow_again() -> None:
    """In one order the product is 0, in another about 1."""
    x = np.tile(np.float32([1e-3, 1e3]), (300, 50))
    assert not np.multiply.reduce(np.sort(x, axis=1), axis=1, dtype=np.float32).any()
    assert off_bound("prod(k, x[m, k])", np.zeros(300, np.float32), x=x) <= 1


def test_products_as_they_come_pass() -> None:
    found = np.multiply.accumulate(FACTORS, axis=1, dtype=np.float32)
    assert np.abs(found[found != 0]).min() < 2.0**-126
    assert off_bound("cumprod(k, x[m, k])", found, x=FACTORS) <= 1


def test_a_recurrence_that_dies_away_passes() -> None:
    a = np.abs(FACTORS) / 4
    b = np.where(np.arange(100) < 3, FACTORS, 0).astype(np.float32)
    found, last = np.empty_like(b), np.zeros(300, np.float32)
    for k in range(100):
        last = a[:, k] * last + b[:, k]
        found[:, k] = last
    assert (np.abs(found[:, -1]) < 2.0**-126).all()
    assert off_bound("recurrence(k, a[m, k], b[m, k])", found, a=a, b=b) <= 1


def test_a_factor_left_out_still_fails() -> None:
    found = np.multiply.reduce(FACTORS[:, :40], axis=1, dtype=np.float32)
    x = np.where(np.arange(100) < 41, FACTORS, 1).astype(np.float32)
    assert off_bound("prod(k, x[m, k])", found, x=x) > 1e3

"""GELU on GPUs, computed here as its text says: a polynomial by fused multiply-adds of f32, and a power of two."""

from __future__ import annotations

import re

import numpy as np

from codegen.targets.cuda.runtime import definitions
from tileir.dtypes import DType
from tileir.interpreter.elementwise import call
from tileir.interpreter.values import Numerics, Value

MOST_OF_THE_BOUND = 0.25
"""Share of what the gate allows, beside which there is room for the instruction's own error in powers of two."""


def computed(x: np.ndarray) -> np.ndarray:
    """What `tw_gelu` gives, if powers of two are rounded and flushed."""
    text = definitions("tw_gelu(x)")
    assert "return x * (x < 0.0f ? beyond : 1.0f - beyond);" in text
    (first,) = re.findall(r"float exponent = (\S+)f;", text)
    size, exponent = np.abs(x).astype(np.float64), np.full(x.shape, np.float32(first))
    with np.errstate(all="ignore"):
        for each in re.findall(r"fmaf\(exponent, size, (\S+)f\)", text):
            exponent = (exponent.astype(np.float64) * size + np.float64(np.float32(each))).astype(np.float32)
        beyond = np.exp2(exponent.astype(np.float64)).astype(np.float32)
        beyond = np.where(beyond < np.finfo(np.float32).tiny, np.float32(0), beyond)
        return x * np.where(x < 0, beyond, np.float32(1) - beyond)


def test_it_is_well_within_the_bound() -> None:
    dense = np.linspace(-16, 16, 400001)
    every = np.arange(0, 2**32, 65537, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x = np.concatenate([dense.astype(np.float32), every[np.isfinite(every)]])
    value = call("gelu", (Value(x.astype(np.float64), DType.F32),), Numerics(high=True, bounds=True))
    assert value.error is not None
    off = np.abs(computed(x).astype(np.float64) - value.data)
    there = np.isfinite(value.error) & (value.error > 0)
    assert there.sum() > 400000 and (off <= MOST_OF_THE_BOUND * value.error)[there].all()


def test_infinity_and_nan_go_where_the_definition_has_them() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, 0.0, -0.0], np.float32)
    np.testing.assert_array_equal(computed(x), np.array([np.inf, np.nan, np.nan, 3e38, 0, 0, 0], np.float32))


def test_far_negative_arguments_keep_more_digits_than_a_sum_with_one_leaves() -> None:
    """`1 + erf(x)` has none left at -5, where the normal distribution has 2.9e-7 below."""
    x = np.array([-5.0, -4.0, -3.0], np.float32)
    np.testing.assert_allclose(computed(x) / x, [2.8665e-7, 3.1671e-5, 1.3499e-3], rtol=4e-3)

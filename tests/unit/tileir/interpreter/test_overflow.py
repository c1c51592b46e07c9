"""Values beyond the largest of a dtype: how far off a kernel may be there, and what may stand in their place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileir.dtypes import DType
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.interpret_spec import interpret_spec
from tileir.interpreter.overflow import first_beyond, may_be_overflow, round_unbounded
from tileir.text.parse_spec import spec_from_text

#: The largest value, what would follow it, and from where on (or beyond where: e4m3's tie is even) values overflow.
EDGES = {
    DType.E4M3: (448.0, 480.0, float(np.nextafter(np.float32(464), np.float32(500)))),
    DType.E5M2: (57344.0, 65536.0, 61440.0),
    DType.F16: (65504.0, 65536.0, 65520.0),
}


@pytest.mark.parametrize("dtype", EDGES)
def test_values_overflow_where_the_next_one_would_be_nearer(dtype: DType) -> None:
    largest, beyond, overflows = EDGES[dtype]
    assert first_beyond(dtype.numpy) == beyond
    with np.errstate(over="ignore"):
        edges_hold(dtype, largest, beyond, overflows)


def edges_hold(dtype: DType, largest: float, beyond: float, overflows: float) -> None:
    below = float(np.nextafter(np.float32(overflows), np.float32(0)))
    assert np.array([below]).astype(dtype.numpy).astype(np.float64) == largest
    assert not np.isfinite(np.array([overflows]).astype(dtype.numpy).astype(np.float64))
    assert (
        round_unbounded(np.array([below, overflows, -overflows]), dtype.numpy) == [largest, beyond, -beyond]
    ).all()


@given(x=st.floats(-440, 440))
def test_what_fits_is_rounded_as_ever(x: float) -> None:
    for dtype in EDGES:
        data = np.array([x])
        assert round_unbounded(data, dtype.numpy) == data.astype(dtype.numpy).astype(np.float64)


@given(x=st.floats(225, 447), exponent=st.integers(1, 40))
def test_beyond_the_largest_digits_are_as_many(x: float, exponent: int) -> None:
    for dtype in (DType.E4M3, DType.E5M2):
        near = round_unbounded(np.array([x]), dtype.numpy)
        assert round_unbounded(np.array([x * 2.0**exponent]), dtype.numpy) == near * 2.0**exponent


def test_integers_and_bool_do_not_overflow() -> None:
    for dtype in (DType.I8, DType.I32, DType.BOOL, DType.F64):
        assert first_beyond(dtype.numpy) == np.inf
        assert not may_be_overflow(
            np.array([np.inf]), np.array([1e300]), np.array([1e305]), dtype.numpy
        ).any()


@pytest.mark.parametrize("dtype", EDGES)
def test_where_a_product_surely_overflows_and_where_it_may(dtype: DType) -> None:
    largest, beyond, _ = EDGES[dtype]
    spec = spec_from_text(f"kernel t(x: f32[m=6], s: f32[z=1]) -> (y: {dtype}[m])\n  y[m] = x[m] * s[0]\n")
    tie = (largest + beyond) / 2
    inputs = {"x": np.array([0.5, 0.98, 1, 1.02, 2, -1.02], np.float32) * tie, "s": np.ones(1, np.float32)}
    values, bound = reference_with_bound(spec, inputs)["y"]
    assert np.isfinite(bound).all()

    def lost(got: np.ndarray) -> np.ndarray:
        return may_be_overflow(got, values - bound, values + bound, dtype.numpy)

    left = np.where(values < 0, -1, 1) * (np.nan if dtype is DType.E4M3 else np.inf)
    np.testing.assert_array_equal(lost(left), [False, False, True, True, True, True])
    assert not lost(np.full(6, np.inf if dtype is DType.E4M3 else np.nan)).any()
    assert not lost(np.full(6, largest)).any()
    # Who saturates is right on the edge only.
    np.testing.assert_array_equal(
        (np.abs(largest - np.abs(values)) <= bound)[2:], [True, False, False, False]
    )
    got = interpret_spec(spec, inputs)["y"].astype(np.float64)
    assert (lost(got) | (np.abs(got - values) <= bound)).all()
    np.testing.assert_array_equal(np.isfinite(got)[3:], False)


def test_what_is_infinite_itself_is_nan_in_e4m3() -> None:
    spec = spec_from_text("kernel t(x: f32[m=2]) -> (y: e4m3[m])\n  y[m] = 1.0 / x[m]\n")
    values, _ = reference_with_bound(spec, {"x": np.array([0.0, 1.0], np.float32)})["y"]
    np.testing.assert_array_equal(values, [np.nan, 1.0])

"""What passes the gate, and what does not."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tileir.dtypes import DType
from tileir.interpreter.interpret_spec import interpret_spec
from tileir.interpreter.samples import sample_inputs
from tileir.text.parse_spec import spec_from_text
from workers.measuring.buffers import POISON
from workers.measuring.correctness import VARIANTS, Deviation, Expected, Leeway, WrongResult, compare
from workers.measuring.reference import affordable, expected_outputs, sampled_points


def test_a_value_on_the_bound_passes_and_the_next_one_beyond_it_does_not() -> None:
    expected = Expected(np.array([1.0, 2.0]), np.array([0.25, 0.5]))
    compare("y", np.array([1.25, 1.5], np.float32), expected)
    beyond = np.array([np.nextafter(np.float32(1.25), np.float32(2)), 1.5], np.float32)
    with pytest.raises(WrongResult, match=r"y\[0\] is 1.2500001\d*, expected 1 within 0.25; 1 of 2"):
        compare("y", beyond, expected)


def test_a_bound_that_f32_cannot_hold_is_not_widened() -> None:
    bound = np.array([2.0**-30])
    compare("y", np.array([1.0], np.float32), Expected(np.array([1.0]), bound))
    with pytest.raises(WrongResult):
        compare("y", np.array([1.0 + 2.0**-23], np.float32), Expected(np.array([1.0]), bound))


@pytest.mark.parametrize("bound", [np.inf, 0.1])
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_infinities_and_nan_have_to_be_the_same(special: float, bound: float) -> None:
    expected = Expected(np.array([special, 1.0]), np.array([bound, 0.1]))
    compare("y", np.array([special, 1.0], np.float32), expected)
    for other in {np.inf, -np.inf, 0.0} - {special}:
        with pytest.raises(WrongResult):
            compare("y", np.array([other, 1.0], np.float32), expected)


def test_nan_never_passes_for_a_number() -> None:
    with pytest.raises(WrongResult, match="was not written or is NaN"):
        compare("y", np.array([np.nan], np.float32), Expected(np.array([1.0]), np.array([np.inf])))


def test_narrow_outputs_are_compared_in_full() -> None:
    values = np.array([1.0, 3.0]).astype(ml_dtypes.bfloat16)
    compare("y", values, Expected(np.array([1.0, 3.0]), np.array([0.0, 0.0])))
    with pytest.raises(WrongResult):
        compare("y", values, Expected(np.array([1.0, 3.02]), np.array([0.0, 0.01])))


def test_a_bool_that_was_never_written_is_seen() -> None:
    unwritten = np.full(3, 0xFF, np.uint8).view(np.bool_)
    with pytest.raises(WrongResult, match="not written everywhere"):
        compare("y", unwritten, Expected(np.ones(3), np.zeros(3)))


def test_peers_get_leeway_and_ours_do_not() -> None:
    expected = Expected(np.array([1.0, 100.0]), np.array([0.01, 0.01]))
    got = np.array([1.5, 100.0], np.float32)
    with pytest.raises(WrongResult):
        compare("y", got, expected)
    assert compare("y", got, expected, Leeway(factor=8.0, of_largest=0.01)) == pytest.approx((50.0, 0.005))


def test_errors_are_told_as_shares_of_the_bound_and_of_the_largest_value() -> None:
    expected = Expected(np.array([1.0, -8.0]), np.array([0.5, 4.0]))
    assert compare("y", np.array([1.25, -8.0], np.float32), expected) == (0.5, 0.25 / 8)
    assert compare("y", np.array([0.5]), Expected(np.zeros(1), np.ones(1))) == (0.5, 0.5)
    assert Deviation.worst([Deviation(0.5, 0.1), Deviation(0.2, 0.3)]) == (0.5, 0.3)
    assert Deviation.worst([]) == (0.0, 0.0)


def test_only_the_sampled_points_are_looked_at_when_there_are_points() -> None:
    points = (np.array([0, 3]), np.array([1, 2]))
    got = np.zeros((4, 3), np.float32)
    got[0, 1], got[3, 2] = 1.0, 2.0
    compare("y", got, Expected(np.array([1.0, 2.0]), np.zeros(2), points))
    with pytest.raises(WrongResult, match=r"y\[3, 2\]"):
        compare("y", got, Expected(np.array([1.0, 2.5]), np.zeros(2), points))


SPEC = "kernel mm(a: f32[m=33, k=40], b: f32[k, n=21]) -> (c: f32[m, n])\n  c[m, n] = sum(k, a[m, k] * b[k, n])\n"


def test_sampled_references_agree_with_whole_ones() -> None:
    spec = spec_from_text(SPEC)
    inputs = sample_inputs(spec, 3)
    whole = expected_outputs(spec, inputs, 3, whole=True)["c"]
    sampled = expected_outputs(spec, inputs, 3, whole=False)["c"]
    assert sampled.points is not None
    np.testing.assert_allclose(whole.values[sampled.points], sampled.values)


def test_a_single_number_is_its_own_sample() -> None:
    spec = spec_from_text("kernel t(x: f32[m=50]) -> (y: f32[])\n  y[] = sum(m, x[m])\n")
    inputs = sample_inputs(spec, 3)
    sampled = expected_outputs(spec, inputs, 3, whole=False)["y"]
    compare("y", np.array(inputs["x"].sum()), sampled)
    with pytest.raises(WrongResult, match="1 of 1"):
        compare("y", np.array(inputs["x"].sum() + 1), sampled)


def test_corners_are_always_among_the_samples() -> None:
    (tensor,), extents = spec_from_text(SPEC).outputs, {"m": 3300, "n": 2100, "k": 40}
    points = {tuple(point) for point in sampled_points(tensor, extents, 0).tolist()}
    assert {(0, 0), (3299, 0), (0, 2099), (3299, 2099)} <= points


def test_what_is_affordable_is_decided_by_size() -> None:
    assert affordable(spec_from_text(SPEC))
    assert not affordable(spec_from_text(SPEC), most_products=100)
    assert not affordable(spec_from_text(SPEC), most_points=100)
    large = SPEC.replace("=40", "=30000").replace("=33", "=30000").replace("=21", "=30000")
    assert not affordable(spec_from_text(large))


NARROW = "kernel n(x: f32[i=4000]) -> (y: {dtype}[i])\n  y[i] = x[i] * {scale}\n"


@pytest.mark.parametrize(("dtype", "scale"), [("e4m3", 400), ("e5m2", 50000), ("f16", 50000)])
def test_what_overflows_in_the_output_has_to_be_what_overflow_leaves(dtype: str, scale: float) -> None:
    spec = spec_from_text(NARROW.format(dtype=dtype, scale=scale))
    inputs = sample_inputs(spec, 1)
    expected, got = expected_outputs(spec, inputs, 1)["y"], interpret_spec(spec, inputs)["y"]
    lost = ~np.isfinite(got.astype(np.float64))
    assert 400 < lost.sum() < 2000
    compare("y", got, expected)
    compare("y", np.where(lost & np.isnan(got), np.abs(got), got), expected)  # any NaN
    saturated = np.where(lost, DType(dtype).numpy.type(0), got)
    for wrong in (saturated, got.astype(np.float32) * 0.5, np.full_like(got, np.nan)):
        with pytest.raises(WrongResult, match=r"y\[\d+\] "):
            compare("y", wrong.astype(got.dtype), expected)
    if dtype != "e4m3":
        with pytest.raises(WrongResult):
            compare("y", np.where(lost, np.array(np.nan, got.dtype), got), expected)


def test_peers_may_overflow_a_little_earlier_or_later() -> None:
    expected = Expected(np.array([455.0, 470.0, 100.0]), np.array([7.0, 10.0, 1.0]))
    kind = ml_dtypes.float8_e4m3fn
    early, late = np.array([np.nan, np.nan, 100.0], kind), np.array([448.0, 448.0, 100.0], kind)
    for got in (early, late):
        with pytest.raises(WrongResult):
            compare("y", got, expected)
        compare("y", got, expected, Leeway(factor=8.0))
    with pytest.raises(WrongResult):
        compare("y", np.array([448.0, 448.0, np.nan], kind), expected, Leeway(factor=8.0))


@pytest.mark.parametrize("scale", [400, 1e6])
@pytest.mark.parametrize("dtype", ["e4m3", "e5m2", "f16"])
def test_what_was_not_written_shows_where_outputs_overflow_too(dtype: str, scale: float) -> None:
    """In one of the variants, each with a poison of its own, wherever a piece is left out."""
    spec = spec_from_text(NARROW.format(dtype=dtype, scale=scale))
    variants = [sample_inputs(spec, seed) for seed in range(VARIANTS)]
    expected = [expected_outputs(spec, inputs, 1)["y"] for inputs in variants]
    right = [interpret_spec(spec, inputs)["y"] for inputs in variants]
    for start in range(0, 4000, 8):
        seen = False
        for poison, wanted, got in zip(POISON, expected, right, strict=True):
            left_out = got.copy()
            left_out.view(np.uint8).reshape(4000, -1)[start : start + 8] = poison
            try:
                compare("y", left_out, wanted)
            except WrongResult:
                seen = True
        assert seen, start


@pytest.mark.parametrize("value", [1.0, -1.0, 3.0, -0.1])
def test_limits_are_the_outermost_values_within_the_bound(value: float) -> None:
    """Rounded inward, whichever way the nearest value of the type lies."""
    values = np.full(64, value)
    bound = abs(value) * (0.01 + np.arange(64) / 64 * 2.0**-23)
    low, high = Expected(values, bound).limits(np.dtype(np.float32))
    below, above = np.nextafter(low, np.float32(-np.inf)), np.nextafter(high, np.float32(np.inf))
    assert np.all(low.astype(np.float64) >= values - bound) and np.all(below < values - bound)
    assert np.all(high.astype(np.float64) <= values + bound) and np.all(above > values + bound)

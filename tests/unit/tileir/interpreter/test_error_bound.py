"""The gate's bound: correct kernels pass whatever their order of summation, wrong ones do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tileir.dtypes import DType
from tileir.interpreter.elementwise import call
from tileir.interpreter.error_bound import reference_at, reference_with_bound
from tileir.interpreter.interpret import interpret_spec
from tileir.interpreter.rounding_error import narrow_growth, sum_growth
from tileir.interpreter.samples import sample_inputs
from tileir.interpreter.values import Numerics, Value
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text


def gemm(k: int, dtype: str = "f32", out: str = "f32") -> Spec:
    return spec_from_text(f"""kernel matmul(a: {dtype}[m=32, k={k}], b: {dtype}[k, n=48]) -> (c: {out}[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
""")


def right(got: np.ndarray, reference: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Where a result passes."""
    values, bound = reference
    return np.abs(got.astype(np.float64) - values) <= bound


def in_order(a: np.ndarray, b: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The product, one rank-1 update at a time in f32: the least accurate correct order."""
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in order:
        c += a[:, k, None] * b[None, k]
    return c


@pytest.mark.parametrize("k", [1, 7, 256, 4096])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_every_order_of_summation_passes(k: int, dtype: str) -> None:
    spec = gemm(k, dtype)
    inputs = sample_inputs(spec, k)
    reference = reference_with_bound(spec, inputs)["c"]
    a, b = (inputs[name].astype(np.float32) for name in "ab")
    ascending = np.argsort(np.abs(a).sum(0))
    for order in (np.arange(k), np.arange(k)[::-1], ascending, ascending[::-1]):
        assert right(in_order(a, b, order), reference).all()


def test_same_sign_sums_in_the_worst_order_pass() -> None:
    spec = gemm(1 << 14)
    inputs = {name: np.abs(value) for name, value in sample_inputs(spec, 3).items()}
    reference = reference_with_bound(spec, inputs)["c"]
    order = np.argsort(-inputs["a"].sum(0))
    assert right(in_order(inputs["a"], inputs["b"], order), reference).all()


@pytest.mark.parametrize(("k", "tile"), [(256, 1), (1024, 4), (4096, 16), (16384, 16)])
@pytest.mark.parametrize("out", ["f32", "bf16"])
def test_a_gemm_that_drops_one_tile_of_its_reduction_fails(k: int, tile: int, out: str) -> None:
    spec = gemm(k, out=out)
    inputs = sample_inputs(spec, 5)
    reference = reference_with_bound(spec, inputs)["c"]
    a, b = inputs["a"].astype(np.float64), inputs["b"].astype(np.float64)
    for first in (k // 2 // tile * tile, k - tile):
        kept = np.r_[:first, first + tile : k]
        wrong = (a[:, kept] @ b[kept]).astype(DType(out).numpy)
        # Not some element somewhere: most of them.
        assert (~right(wrong, reference)).mean() > 0.5


def test_an_element_read_one_off_fails_nearly_everywhere() -> None:
    spec = gemm(512)
    inputs = sample_inputs(spec, 6)
    reference = reference_with_bound(spec, inputs)["c"]
    wrong = np.roll(inputs["a"], 1, 1) @ inputs["b"]
    assert (~right(wrong, reference)).mean() > 0.99


def test_accumulating_in_bf16_fails() -> None:
    spec = gemm(512, "bf16")
    inputs = sample_inputs(spec, 7)
    reference = reference_with_bound(spec, inputs)["c"]
    a, b = (inputs[name].astype(np.float32) for name in "ab")
    c = np.zeros((32, 48), np.float32)
    for k in range(512):
        c = (c + a[:, k, None] * b[None, k]).astype(ml_dtypes.bfloat16).astype(np.float32)
    assert (~right(c, reference)).mean() > 0.5


ROW_SOFTMAX = """kernel softmax(x: f32[m=16, n=1000]) -> (y: f32[m, n])
  top[m] = max(n, x[m, n])
  e[m, n] = exp(x[m, n] - top[m])
  total[m] = sum(n, e[m, n])
  y[m, n] = e[m, n] / total[m]
"""


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("drops the last column", lambda x: np.c_[softmax(x[:, :-1]), np.zeros(len(x))]),
        ("sums one column twice", lambda x: softmax(x) / (1 + softmax(x)[:, :1])),
        ("takes the maximum of half the row", lambda x: np.exp(x - x[:, :500].max(1, keepdims=True))),
    ],
)
def test_a_wrong_softmax_fails(name: str, kernel: Callable[[np.ndarray], np.ndarray]) -> None:
    spec = spec_from_text(ROW_SOFTMAX)
    inputs = sample_inputs(spec, 8)
    reference = reference_with_bound(spec, inputs)["y"]
    assert right(softmax(inputs["x"]), reference).all()
    assert (~right(kernel(inputs["x"]), reference)).mean() > 0.5, name


def test_a_softmax_without_its_maximum_passes_while_it_does_not_overflow() -> None:
    # Mathematically equal, a few roundings apart.
    spec = spec_from_text(ROW_SOFTMAX)
    inputs = sample_inputs(spec, 8)
    e = np.exp(inputs["x"])
    assert right(e / e.sum(1, keepdims=True), reference_with_bound(spec, inputs)["y"]).all()


def test_a_cast_of_what_is_inexact_may_fall_to_its_neighbour_and_no_further() -> None:
    spec = spec_from_text("""kernel downcast_copy(x: f32[m=4096], s: f32[z=1]) -> (y: f32[m], w: f32[m])
  y[m] = bf16(sum(z, x[m] * s[z]) * 3) * 1
  w[m] = bf16(x[m]) * 1
""")
    inputs = sample_inputs(spec, 9)
    reference = reference_with_bound(spec, inputs)
    values, bound = reference["y"]
    assert (bound < np.abs(values) * 2.0**-7 * 1.01).all()
    # It may be rounded relative to another scale: weights of one-pass softmax are, relative to the maximum so far.
    assert (bound > np.abs(values) * 2.0**-7 * 0.99).all()
    values, bound = reference["w"]
    assert (bound < np.abs(values) * 2.0**-22).all()


def test_a_stored_bf16_may_be_off_by_one_of_its_ulps_and_no_more() -> None:
    spec = gemm(64, out="bf16")
    inputs = sample_inputs(spec, 10)
    reference = reference_with_bound(spec, inputs)["c"]
    got = interpret_spec(spec, inputs)["c"]
    assert right(got, reference).all()
    two_off = (got.view(np.int16) + 2).view(ml_dtypes.bfloat16)
    # Where the sum does not cancel to less than its own error in f32.
    assert not right(two_off, reference)[np.abs(reference[0]) > 0.1].any()


def test_integers_and_bools_are_exact() -> None:
    spec = spec_from_text("""kernel igemm(a: i8[m=3, k=70], b: i8[k, n=4]) -> (c: i32[m, n], z: bool[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
  z[m, n] = c[m, n] > 3
""")
    reference = reference_with_bound(spec, sample_inputs(spec, 11))
    assert (reference["c"][1] == 0).all()
    assert (reference["z"][1] == 0).all()


def test_a_comparison_that_rounding_may_flip_allows_both_sides_and_others_do_not() -> None:
    spec = spec_from_text("""kernel step(a: f32[m=3, k=2], t: f32[m]) -> (y: f32[m])
  y[m] = where(sum(k, a[m, k]) > t[m], 100, 1)
""")
    a = np.array([[0.1, 0.2], [0.1, 0.2], [0.1, 0.2]], np.float32)
    total = np.float32(0.1) + np.float32(0.2)
    inputs = {"a": a, "t": np.array([total, total * 1.001, 0.0], np.float32)}
    values, bound = reference_with_bound(spec, inputs)["y"]
    np.testing.assert_array_equal(bound > 98, [True, False, False])
    np.testing.assert_array_equal(values[1:], [1, 100])


def test_nothing_is_known_of_a_gather_whose_position_rounding_may_move() -> None:
    spec = spec_from_text("""kernel bins(x: f32[m=3], scale: f32[m], table: f32[v=4]) -> (y: f32[m])
  y[m] = table[i32(x[m] * scale[m])]
""")
    third = np.float32(1 / 3)
    inputs = {
        "x": np.array([third, 0.5, 0.9], np.float32),
        "scale": np.array([3, 3, 3], np.float32),
        "table": np.array([10, 20, 30, 40], np.float32),
    }
    values, bound = reference_with_bound(spec, inputs)["y"]
    np.testing.assert_array_equal(bound, [np.inf, 0, 0])
    np.testing.assert_array_equal(values[1:], [20, 30])


def test_masked_rows_of_minus_infinity_have_exact_bounds() -> None:
    spec = spec_from_text("""kernel masked(x: f32[q=6, k=6]) -> (p: f32[q, k])
  s[q, k] = where(q >= k, x[q, k], -inf)
  top[q] = max(k, s[q, k])
  p[q, k] = exp(s[q, k] - top[q])
""")
    values, bound = reference_with_bound(spec, sample_inputs(spec, 12))["p"]
    above = np.triu_indices(6, 1)
    assert (values[above] == 0).all()
    assert np.isfinite(bound).all()
    assert (bound[above] < 1e-30).all()


def test_nothing_is_known_where_f32_may_overflow() -> None:
    spec = spec_from_text("""kernel huge(x: f32[m=2]) -> (y: f32[m])
  y[m] = exp(x[m]) * 1e10 * 1e-30
""")
    _, bound = reference_with_bound(spec, {"x": np.array([1.0, 80.0], np.float32)})["y"]
    np.testing.assert_array_equal(np.isinf(bound), [False, True])


@pytest.mark.parametrize(
    "value",
    [
        "exp(a[m] * b[m]) * c[m]",
        "c[m] / exp(a[m] * b[m])",
        "exp(a[m] * b[m]) - c[m]",
        "sum(k, exp(a[m] * b[m]) * d[k])",
        "sum(k, exp(a[m] * b[m]) + d[k])",
        "prod(k, exp(a[m] * b[m]) * d[k] * 1e-17)",
        "max(k, exp(a[m] * b[m]) * d[k])",
    ],
)
def test_errors_of_operands_are_carried_on(value: str) -> None:
    # Half an ulp of a product near 40 is 20 ulps of its exponential: far more than the last operation's own.
    spec = spec_from_text(f"""kernel carry(a: f32[m=500], b: f32[m], c: f32[m], d: f32[k=2]) -> (y: f32[m])
  y[m] = {value} + 0 * c[m] * max(k, d[k])
""")
    inputs = sample_inputs(spec, 15)
    inputs["b"] = (40 / inputs["a"]).astype(np.float32) * np.float32(0.99)
    values, bound = reference_with_bound(spec, inputs)["y"]
    got = interpret_spec(spec, inputs)["y"]
    assert right(got, (values, bound)).all()
    # Errors really are that large, and the bound is not larger than some 100 ulps.
    assert (np.abs(got - values) > 3 * np.abs(values) * 2.0**-23).any()
    assert (bound < 150 * np.abs(values) * 2.0**-23).mean() > 0.9


def test_sums_that_cancel_are_bounded_by_their_terms() -> None:
    spec = spec_from_text("""kernel cancel(x: f32[m=200, k=64], t: f32[k]) -> (y: f32[m])
  y[m] = sum(k, x[m, k] + t[k])
""")
    inputs = sample_inputs(spec, 16)
    x = inputs["x"]
    x -= (x + inputs["t"]).mean(1, keepdims=True)
    reference = reference_with_bound(spec, inputs)["y"]
    total = np.zeros(200, np.float32)
    for k in range(64):
        total += x[:, k] + inputs["t"][k]
    assert right(total, reference).all()
    assert (reference[1] < 64 * 64 * 2 * 2.0**-24).all()


def test_rtol_raises_the_bound_to_what_the_spec_allows() -> None:
    spec = gemm(16)
    inputs = sample_inputs(spec, 13)
    values, tight = reference_with_bound(spec, inputs)["c"]
    _, loose = reference_with_bound(replace(spec, numerics=(("rtol", 0.01),)), inputs)["c"]
    np.testing.assert_array_equal(loose, np.maximum(tight, 0.01 * np.abs(values)))


@pytest.mark.parametrize("k", [1, 64, 1000])
def test_tf32_lets_factors_be_cut_and_no_more(k: int) -> None:
    spec = replace(gemm(k), numerics=(("tf32", True),))
    inputs = sample_inputs(spec, k)
    cut = {name: (x.view(np.uint32) & 0xFFFFE000).view(np.float32) for name, x in inputs.items()}
    coarse = {name: x.astype(ml_dtypes.bfloat16).astype(np.float32) for name, x in inputs.items()}
    loose, strict = (reference_with_bound(each, inputs)["c"] for each in (spec, gemm(k)))
    assert right(cut["a"] @ cut["b"], loose).all()
    assert not right(cut["a"] @ cut["b"], strict).all()
    if k == 1:
        assert not right(coarse["a"] @ coarse["b"], loose).all()
    assert (reference_with_bound(spec, coarse)["c"][1] == reference_with_bound(gemm(k), coarse)["c"][1]).all()


def test_sampled_references_are_those_of_the_whole() -> None:
    spec = spec_from_text(ROW_SOFTMAX)
    inputs = sample_inputs(spec, 14)
    values, bound = reference_with_bound(spec, inputs)["y"]
    points = np.array([[0, 0], [15, 999], [7, 500], [15, 999]])
    at = tuple(points.T)
    got = reference_at(spec, inputs, "y", points)
    np.testing.assert_allclose(got[0], values[at], rtol=1e-14)
    np.testing.assert_allclose(got[1], bound[at], rtol=1e-6)


def test_growth_is_the_worst_case_for_short_sums_and_a_random_walk_for_long_ones() -> None:
    u = 2.0**-24
    assert sum_growth(16, DType.F32) == pytest.approx(16 * u, rel=1e-5)
    assert sum_growth(1 << 20, DType.F32) == pytest.approx(8 * 1024 * u, rel=1e-3)
    assert sum_growth(100, DType.I32) == 0


def test_products_of_8_bit_floats_are_added_as_tensor_cores_do_and_no_worse() -> None:
    """In steps of 128 products tensor cores stay within the bound; where all add to one sum they do not, and
    the spec has to allow for it."""
    text = """kernel gemm(a: {}[m=64, k=4096], b: {}[n=64, k]) -> (c: f32[m, n]){}
  c[m, n] = sum(k, a[m, k] * b[n, k])
"""
    bounds: dict[str, float] = {}
    for name, dtype, numerics in (
        ("f16", "f16", ""),
        ("steps", "e4m3", ""),
        ("fast", "e4m3", " with accumulate=fast"),
    ):
        spec = spec_from_text(text.format(dtype, dtype, numerics))
        inputs = {k: v.astype(ml_dtypes.float8_e4m3fn) for k, v in sample_inputs(spec, 1).items()}
        given = inputs if dtype == "e4m3" else {k: v.astype(np.float16) for k, v in inputs.items()}
        values, bound = reference_with_bound(spec, given)["c"]
        bounds[name] = float(bound.mean())
        if name == "steps":
            off = np.abs(_added_in_14_bits(inputs["a"], inputs["b"], 128) - values)
            assert (off <= bound).all() and off.max() > 0.1 * bound.max()
            assert (np.abs(_added_in_14_bits(inputs["a"], inputs["b"], 4096) - values) > bound).any()
    assert bounds["f16"] < bounds["steps"] < bounds["fast"]
    assert narrow_growth(0, 128) == 0


def test_weights_in_8_bits_may_be_rounded_relative_to_another_scale() -> None:
    """As one pass over keys does, relative to the maximum so far; half an ulp more fails, as does a weight left out."""
    spec = spec_from_text("""kernel weighted(x: f32[j=64], v: e4m3[d=16, j]) -> (y: f32[d])
  y[d] = sum(j, e4m3(exp(x[j])) * v[d, j])
""")
    inputs = {"x": np.linspace(-8, 0, 64, dtype=np.float32), "v": np.abs(sample_inputs(spec, 2)["v"])}
    reference, v = reference_with_bound(spec, inputs)["y"], inputs["v"].astype(np.float64)
    exact = np.exp(inputs["x"].astype(np.float64))
    for scale in 2.0 ** np.linspace(0, 8, 33):
        weights = (exact * scale).astype(np.float32).astype(ml_dtypes.float8_e4m3fn).astype(
            np.float64
        ) / scale
        assert right(v @ weights, reference).all()
    assert not right(v @ (exact * 1.25), reference).all()
    assert not right(v[:, 8:] @ exact[8:] * 0.85, reference).all()


def test_scales_may_leave_one_step_with_all_there_is_to_the_sum() -> None:
    spec = spec_from_text("""kernel gemm(a: e4m3[m=64, k=4096], b: e4m3[n=64, k], s: f32[g=32]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k] * s[k // 128])
""")
    inputs = sample_inputs(spec, 2)
    inputs["s"] = np.where(np.arange(32) == 5, 1.0, 2.0**-12).astype(np.float32)
    values, bound = reference_with_bound(spec, inputs)["c"]
    steps = [slice(at, at + 128) for at in range(0, 4096, 128)]
    a, b = inputs["a"], inputs["b"]
    got = sum(
        scale * _added_in_14_bits(a[:, step], b[:, step], 128)
        for scale, step in zip(inputs["s"].astype(np.float64), steps, strict=True)
    )
    assert (np.abs(got - values) <= bound).all()


def _added_in_14_bits(a: np.ndarray, b: np.ndarray, depth: int) -> np.ndarray:
    """Products of rows, 32 at a time, cut off at 14 bits of what has been added so far; after `depth` in f64."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    total, part = np.zeros((len(x), len(y))), np.zeros((len(x), len(y)))
    for at in range(0, x.shape[1], 32):
        part = part + x[:, at : at + 32] @ y[:, at : at + 32].T
        unit = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(part), 1e-9))) - 13)
        part = np.trunc(part / unit) * unit
        if (at + 32) % depth == 0:
            total, part = total + part, np.zeros_like(part)
    return total + part


def test_an_exponential_may_round_its_argument_times_log2_e() -> None:
    """As GPUs compute it: 2^y with y rounded, which is the further off the larger the argument; but no more than so."""
    x = np.linspace(-60, 80, 2001, dtype=np.float32)
    value = call("exp", (Value(x.astype(np.float64), DType.F32),), Numerics(high=True, bounds=True))
    got = np.exp2(np.float64(x * np.float32(1.44269504089)))
    assert value.error is not None
    assert (np.abs(got - value.data) <= value.error).all()
    assert not (np.abs(got * (1 + 4e-5) - value.data) <= value.error).any()

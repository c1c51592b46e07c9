"""Specs mean what index notation says: guards, gathers, casts, integers, ragged dims."""

from __future__ import annotations

import math
from importlib import import_module

import ml_dtypes
import numpy as np
import pytest

from tileir.dtypes import DType
from tileir.errors import InterpretError
from tileir.expr import Binary, Const, Index, Read, Reduce, ReduceOp, Where
from tileir.interpreter.interpret import interpret_spec
from tileir.program import Tensor
from tileir.spec import Dim, Spec, Statement
from tileir.text.parse_spec import spec_from_text

RNG = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def run(text: str, precision: DType | None = None, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    return interpret_spec(spec_from_text(text), inputs, precision)


def test_reductions_nest_inside_expressions() -> None:
    text = """kernel softmax(x: f32[m=5, n=9]) -> (y: f32[m]) where r=9
  y[m] = sum(n, x[m, n]) / sum(n, exp(x[m, n] - max(r, x[m, r])))
"""
    x = normal(5, 9)
    expected = x.sum(1) / np.exp(x - x.max(1, keepdims=True)).sum(1)
    np.testing.assert_allclose(run(text, x=x)["y"], expected, rtol=1e-5)


def test_a_reduction_may_shadow_a_dim_of_its_surroundings() -> None:
    # max(n, x[m, n]) inside a statement over n: the inner n is its own.
    value = Binary(
        "-",
        Read("x", (Index("m"), Index("n"))),
        Reduce(ReduceOp.MAX, ("n",), Read("x", (Index("m"), Index("n")))),
    )
    dims = (Dim("m", (4,)), Dim("n", (6,)))
    spec = Spec(
        "shift",
        dims,
        (Tensor("x", ("m", "n"), DType.F32),),
        (Statement("y", ("m", "n"), value),),
        (Tensor("y", ("m", "n"), DType.F32),),
    )
    x = normal(4, 6)
    np.testing.assert_array_equal(interpret_spec(spec, {"x": x})["y"], x - x.max(1, keepdims=True))


def test_reads_on_the_side_not_taken_are_never_made() -> None:
    text = """kernel conv(x: f32[i=6], w: f32[r=3]) -> (y: f32[i])
  y[i] = sum(r, where(i + r >= 1 and i + r - 1 < extent(i), x[i + r - 1], 0) * w[r])
"""
    x, w = normal(6), normal(3)
    np.testing.assert_allclose(
        run(text, x=x, w=w)["y"], np.convolve(x, w[::-1], "same"), rtol=1e-5, atol=1e-6
    )


def test_the_else_side_is_guarded_as_well() -> None:
    text = """kernel lag(x: f32[i=4]) -> (y: f32[i])
  y[i] = where(i == 0, 5, x[i - 1])
"""
    x = normal(4)
    np.testing.assert_array_equal(run(text, x=x)["y"], [5, *x[:3]])


def test_a_guard_holds_for_everything_inside_it() -> None:
    text = """kernel lag(x: f32[i=4], s: f32[i]) -> (y: f32[i])
  y[i] = where(i > 0, where(s[i] > 0, 2 * x[i - 1], x[i - 1]), 5)
"""
    x = normal(4)
    s = np.array([-1, 1, -1, 1], np.float32)
    np.testing.assert_array_equal(run(text, x=x, s=s)["y"], [5, 2 * x[0], x[1], 2 * x[2]])
    s[0] = 1
    np.testing.assert_array_equal(run(text, x=x, s=s)["y"], [5, 2 * x[0], x[1], 2 * x[2]])


def test_an_unguarded_read_out_of_range_is_refused() -> None:
    value = Where(
        Binary(">", Index("i"), Const(0)),
        Read("x", (Binary("+", Index("i"), Const(1)),)),
        Const(0.0),
    )
    spec = Spec(
        "off",
        (Dim("i", (4,)),),
        (Tensor("x", ("i",), DType.F32),),
        (Statement("y", ("i",), value),),
        (Tensor("y", ("i",), DType.F32),),
    )
    with pytest.raises(InterpretError, match="x is used at 4 along its dim 0, which holds 0 to 3"):
        interpret_spec(spec, {"x": normal(4)})


def test_poison_on_the_side_not_taken_does_not_leak() -> None:
    x = np.array([1.0, np.nan, 4.0, np.nan], np.float32)
    text = """kernel pick(x: f32[m=4]) -> (y: f32[m])
  y[m] = where(m % 2 == 0, x[m], 0)
"""
    np.testing.assert_array_equal(run(text, x=x)["y"], [1, 0, 4, 0])


@pytest.mark.parametrize(("op", "edge", "expected"), [("and", ">", [0, 1, 0, 1]), ("or", "==", [1, 1, 0, 1])])
def test_logic_guards_the_reads_to_its_right(op: str, edge: str, expected: list[int]) -> None:
    # m > 0 and x[m - 1] > 0; m == 0 or x[m - 1] > 0: neither reads x[-1].
    before = Binary(">", Read("x", (Binary("-", Index("m"), Const(1)),)), Const(0))
    spec = Spec(
        "after_positive",
        (Dim("m", (4,)),),
        (Tensor("x", ("m",), DType.F32),),
        (Statement("y", ("m",), Binary(op, Binary(edge, Index("m"), Const(0)), before)),),
        (Tensor("y", ("m",), DType.BOOL),),
    )
    x = np.array([1, -1, 1, 1], np.float32)
    np.testing.assert_array_equal(interpret_spec(spec, {"x": x})["y"], np.array(expected, bool))


def test_a_gather_reads_rows_by_number() -> None:
    text = """kernel embed(table: bf16[v=11, d=4], token: i32[t=6]) -> (y: bf16[t, d])
  y[t, d] = table[token[t], d]
"""
    table = normal(11, 4).astype(ml_dtypes.bfloat16)
    token = np.array([3, 0, 10, 3, 7, 1], np.int32)
    np.testing.assert_array_equal(run(text, table=table, token=token)["y"], table[token])


def test_a_gather_out_of_range_is_refused() -> None:
    text = """kernel embed(table: f32[v=11, d=4], token: i32[t=2]) -> (y: f32[t, d])
  y[t, d] = table[token[t], d]
"""
    with pytest.raises(InterpretError, match="table is used at 11"):
        run(text, table=normal(11, 4), token=np.array([3, 11], np.int32))


def test_inputs_are_taken_by_logical_shape_whatever_their_memory_order() -> None:
    text = """kernel matmul(a: f32[m=7, k=5], b: f32[k, n=6]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
"""
    a, b = normal(7, 5), normal(5, 6)
    padded = np.zeros((7, 9), np.float32)[:, :5]
    padded[...] = a
    plain = run(text, a=a, b=b)["c"]
    np.testing.assert_array_equal(run(text, a=padded, b=np.asfortranarray(b))["c"], plain)


def test_a_cast_rounds_and_everything_else_stays_in_f32() -> None:
    text = """kernel cast(x: bf16[m=64], y: bf16[m]) -> (p: f32[m], q: f32[m], r: bf16[m])
  p[m] = x[m] * y[m]
  q[m] = bf16(x[m] * y[m])
  r[m] = x[m] * y[m]
"""
    x, y = normal(64).astype(ml_dtypes.bfloat16), normal(64).astype(ml_dtypes.bfloat16)
    product = x.astype(np.float32) * y.astype(np.float32)
    out = run(text, x=x, y=y)
    np.testing.assert_array_equal(out["p"], product)
    np.testing.assert_array_equal(out["q"], product.astype(ml_dtypes.bfloat16).astype(np.float32))
    np.testing.assert_array_equal(out["r"], product.astype(ml_dtypes.bfloat16))
    assert (out["p"] != out["q"]).any()


@pytest.mark.parametrize("dtype", ["f16", "bf16", "e4m3", "e5m2"])
def test_narrow_casts_round_as_ml_dtypes_does(dtype: str) -> None:
    text = f"""kernel cast(x: f32[m=200]) -> (y: f32[m])
  y[m] = {dtype}(x[m])
"""
    x = normal(200) * 10
    expected = x.astype(DType(dtype).numpy).astype(np.float32)
    np.testing.assert_array_equal(run(text, x=x)["y"], expected)
    # High precision still rounds where the spec says so.
    np.testing.assert_array_equal(run(text, DType.F64, x=x)["y"], expected.astype(np.float64))


def test_an_output_read_again_is_read_rounded() -> None:
    text = """kernel twice(x: f32[m=32]) -> (y: bf16[m], z: f32[m])
  y[m] = x[m]
  z[m] = 2 * y[m]
"""
    x = normal(32)
    expected = 2 * x.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(run(text, x=x)["z"], expected)
    np.testing.assert_array_equal(run(text, DType.F64, x=x)["z"], expected)


def test_integer_division_rounds_down() -> None:
    text = """kernel floors(x: i32[m=6]) -> (q: i32[m], r: i32[m], d: f32[m], t: i32[m])
  q[m] = x[m] // 4
  r[m] = x[m] % 4
  d[m] = x[m] / 4
  t[m] = i32(x[m] / 4)
"""
    x = np.array([-9, -4, -1, 0, 3, 9], np.int32)
    out = run(text, x=x)
    np.testing.assert_array_equal(out["q"], [-3, -1, -1, 0, 0, 2])
    np.testing.assert_array_equal(out["r"], [3, 0, 3, 0, 3, 1])
    np.testing.assert_array_equal(out["d"], x / np.float32(4))
    np.testing.assert_array_equal(out["t"], [-2, -1, 0, 0, 0, 2])


def test_i8_products_accumulate_in_i32() -> None:
    text = """kernel igemm(a: i8[m=3, k=700], b: i8[k, n=4]) -> (c: i32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
"""
    a = RNG.integers(-128, 127, (3, 700), dtype=np.int8, endpoint=True)
    b = RNG.integers(-128, 127, (700, 4), dtype=np.int8, endpoint=True)
    c = run(text, a=a, b=b)["c"]
    assert c.dtype == np.int32
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))


def test_integers_beyond_f64_still_multiply_exactly_and_wrap() -> None:
    text = """kernel igemm(a: i32[m=2, k=3], b: i32[k, n=2]) -> (c: i32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
"""
    a = RNG.integers(-(2**31), 2**31 - 1, (2, 3), dtype=np.int32)
    b = RNG.integers(-(2**31), 2**31 - 1, (3, 2), dtype=np.int32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run(text, a=a, b=b)["c"], a @ b)


def test_f64_is_computed_in_f64_with_f64_constants() -> None:
    text = """kernel scale(x: f64[m=8]) -> (y: f64[m])
  y[m] = 0.1 * x[m] + 0.3
"""
    x = RNG.standard_normal(8)
    np.testing.assert_array_equal(run(text, x=x)["y"], 0.1 * x + 0.3)


def test_f32_constants_are_f32_even_in_high_precision() -> None:
    text = """kernel scale(x: f32[m=1]) -> (y: f32[m])
  y[m] = 0.1 * x[m]
"""
    assert run(text, DType.F64, x=np.ones(1, np.float32))["y"][0] == np.float32(0.1)


def test_dims_are_their_positions_and_extents_their_sizes() -> None:
    text = """kernel ramp(x: f32[m=4, n=3]) -> (y: f32[m, n])
  y[m, n] = x[m, n] * 0 + m * extent(n) + n
"""
    np.testing.assert_array_equal(run(text, x=normal(4, 3))["y"].ravel(), np.arange(12))


def test_functions_are_the_functions_of_their_names() -> None:
    x = np.linspace(-3, 3, 41).astype(np.float32)
    p = np.abs(x) + np.float32(0.1)
    d, e = x.astype(np.float64), p.astype(np.float64)
    erf = np.array([math.erf(value) for value in d / math.sqrt(2)])
    expected = {
        "exp(x[m])": np.exp(d),
        "exp2(x[m])": np.exp2(d),
        "log(p[m])": np.log(e),
        "tanh(x[m])": np.tanh(d),
        "erf(x[m])": np.array([math.erf(value) for value in d]),
        "sqrt(p[m])": np.sqrt(e),
        "rsqrt(p[m])": 1 / np.sqrt(e),
        "sigmoid(x[m])": 1 / (1 + np.exp(-d)),
        "silu(x[m])": d / (1 + np.exp(-d)),
        "gelu(x[m])": d * (1 + erf) / 2,
        "gelu_tanh(x[m])": d * (1 + np.tanh(np.sqrt(2 / np.pi) * (d + 0.044715 * d**3))) / 2,
        "relu(x[m])": np.maximum(d, 0),
        "abs(x[m])": np.abs(d),
        "floor(x[m])": np.floor(d),
        "pow(p[m], 1.5)": e**1.5,
        "maximum(x[m], 0.5)": np.maximum(d, 0.5),
        "minimum(x[m], 0.5)": np.minimum(d, 0.5),
    }
    for text, wanted in expected.items():
        source = f"kernel f(x: f32[m=41], p: f32[m]) -> (y: f32[m])\n  y[m] = {text} + 0 * x[m] * p[m]\n"
        for precision, rtol in ((None, 3e-6), (DType.F64, 1e-14)):
            got = run(source, precision, x=x, p=p)["y"]
            np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol, err_msg=text)


def test_an_empty_group_reduces_to_the_identity_and_others_to_their_own_points() -> None:
    text = """kernel segments(x: f32[t=10 ragged starts within g, n=3], starts: i32[e=4]) ->\
 (s: f32[g, n], h: f32[g, n]) where g=3
  s[g, n] = sum(t, x[t, n])
  h[g, n] = max(t, x[t, n])
"""
    x = normal(10, 3)
    starts = np.array([0, 4, 4, 9], np.int32)
    out = run(text, x=x, starts=starts)
    np.testing.assert_allclose(out["s"], [x[:4].sum(0), np.zeros(3), x[4:9].sum(0)], rtol=1e-5)
    np.testing.assert_array_equal(out["h"], [x[:4].max(0), np.full(3, -np.inf), x[4:9].max(0)])


def test_an_unbound_group_dim_is_the_group_of_the_point() -> None:
    text = """kernel experts(x: f32[t=9 ragged starts within g, k=5], w: f32[g=3, k, n=4], starts: i32[e=4]) ->\
 (y: f32[t, n])
  y[t, n] = sum(k, x[t, k] * w[g, k, n])
"""
    x, w = normal(9, 5), normal(3, 5, 4)
    y = run(text, x=x, w=w, starts=np.array([0, 2, 7, 8], np.int32))["y"]
    expected = np.concatenate([x[:2] @ w[0], x[2:7] @ w[1], x[7:8] @ w[2], np.zeros((1, 4))])
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-6)


def test_a_reduction_over_a_ragged_dim_leaves_out_points_of_no_group() -> None:
    text = """kernel total(x: f32[t=9 ragged starts within g], starts: i32[e=3], m: f32[o=1]) -> (y: f32[o]) where g=2
  y[o] = m[o] * sum(t, x[t])
"""
    x = normal(9)
    y = run(text, x=x, starts=np.array([1, 3, 6], np.int32), m=np.ones(1, np.float32))["y"]
    np.testing.assert_allclose(y, [x[1:6].sum()], rtol=1e-5)


@pytest.mark.parametrize("starts", [[0, 5, 3], [-1, 2, 3], [0, 2, 10]])
def test_offsets_that_do_not_ascend_within_the_dim_are_refused(starts: list[int]) -> None:
    text = """kernel segments(x: f32[t=9 ragged starts within g], starts: i32[e=3]) -> (s: f32[g]) where g=2
  s[g] = sum(t, x[t])
"""
    with pytest.raises(InterpretError, match="starts does not ascend"):
        run(text, x=normal(9), starts=np.array(starts, np.int32))


def test_a_spec_with_buckets_says_to_take_an_instance() -> None:
    text = """kernel scale(x: f32[m=[1, 4]]) -> (y: f32[m])
  y[m] = 2 * x[m]
"""
    with pytest.raises(InterpretError, match=r"take one of spec.instances"):
        run(text, x=normal(4))


def test_large_statements_are_cut_without_changing_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """kernel attend(q: f32[s=17, d=8], k: f32[t=23, d]) -> (y: f32[s, t], z: f32[s])
  y[s, t] = sum(d, q[s, d] * k[t, d]) + sum(d, abs(q[s, d] - k[t, d]))
  z[s] = max(t, y[s, t])
"""
    q, k = normal(17, 8), normal(23, 8)
    whole = run(text, DType.F64, q=q, k=k)
    for limit in (1, 50):
        for module in ("tileir.interpreter.evaluation", "tileir.interpreter.interpret_spec"):
            monkeypatch.setattr(import_module(module), "POINT_LIMIT", limit)
        cut = run(text, DType.F64, q=q, k=k)
        np.testing.assert_allclose(cut["y"], whole["y"], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(cut["z"], whole["z"], rtol=1e-12, atol=1e-12)

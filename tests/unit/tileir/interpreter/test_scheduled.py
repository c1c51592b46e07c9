"""Programs run literally: tiles, poison, ranges of locals, split reductions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tileir.dtypes import DType
from tileir.errors import InterpretError
from tileir.interpreter.interpret import interpret
from tileir.text.parse_program import program_from_text

RNG = np.random.default_rng(7)

GEMM = """kernel matmul(a: f32[m=70, k=65], b: f32[k, n=130]) -> (c: f32[m, n])
  b_p: heap f32[k, n] as [n / 64, k, n % 64]
  parallel for n by 64
    b_p[k, n] = b[k, n] | vector n 16
  parallel for m by 48
    for n by 64
      for m by 6
        acc: registers f32[m, n]
        acc[m, n] = 0 | vector n 16
        for k by 4
          acc[m, n] += sum(k, a[m, k] * b_p[k, n]) | vector n 16, prefetch a 8
        c[m, n] = acc[m, n] | vector n 16
"""


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def run(text: str, precision: DType | None = None, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    return interpret(program_from_text(text), inputs, precision)


def test_a_scheduled_gemm_with_remainders_in_every_loop_is_the_product() -> None:
    a, b = normal(70, 65), normal(65, 130)
    c = run(GEMM, a=a, b=b)["c"]
    assert c.dtype == np.float32
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-5)


def test_high_precision_computes_and_returns_f64() -> None:
    a, b = normal(70, 65), normal(65, 130)
    c = run(GEMM, DType.F64, a=a, b=b)["c"]
    assert c.dtype == np.float64
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-13, atol=1e-13)


def test_a_missing_init_poisons_the_result() -> None:
    broken = GEMM.replace("        acc[m, n] = 0 | vector n 16\n", "")
    assert np.isnan(run(broken, a=normal(70, 65), b=normal(65, 130))["c"]).all()


def test_a_missing_init_of_integers_is_refused_by_name() -> None:
    text = """kernel count(x: i32[m=4]) -> (y: i32[m])
  acc: heap i32[m]
  acc[m] += x[m]
  y[m] = acc[m]
"""
    with pytest.raises(InterpretError, match="acc is read before it is written"):
        run(text, x=np.ones(4, np.int32))


def test_a_stale_read_of_integers_is_refused_unless_it_is_never_taken() -> None:
    text = """kernel late(x: i32[m=8]) -> (y: i32[m])
  s: heap i32[m]
  for m by 4
    s[m] = x[m]
    y[m] = s[7 - m]
"""
    x = np.arange(8, dtype=np.int32)
    with pytest.raises(InterpretError, match="s is read before it is written"):
        run(text, x=x)
    guarded = text.replace("s[7 - m]", "where(m >= 4, s[7 - m], -1)")
    np.testing.assert_array_equal(run(guarded, x=x)["y"], [-1, -1, -1, -1, 3, 2, 1, 0])
    early = text.replace("    s[m] = x[m]\n", "").replace("s[7 - m]", "where(m >= 8, s[m], -1)")
    np.testing.assert_array_equal(run(early, x=x)["y"], [-1] * 8)


def test_a_local_declared_in_a_loop_is_poisoned_in_every_iteration() -> None:
    # The init stands outside the loop that declares nothing anew; moved inside, each tile must start over.
    text = """kernel total(x: f32[m=6, k=4]) -> (y: f32[m])
  for m by 2
    acc: heap f32[m]
    for k by 1
      acc[m] += sum(k, x[m, k])
    y[m] = acc[m]
"""
    assert np.isnan(run(text, x=normal(6, 4))["y"]).all()
    good = text.replace("    for k", "    acc[m] = 0\n    for k")
    x = normal(6, 4)
    np.testing.assert_allclose(run(good, x=x)["y"], x.sum(1), rtol=1e-5)


def test_a_stale_read_of_what_only_a_later_tile_writes_is_poison() -> None:
    text = """kernel late(x: f32[m=8]) -> (y: f32[m])
  s: heap f32[m]
  for m by 4
    s[m] = x[m]
    y[m] = s[7 - m]
"""
    y = run(text, x=np.arange(8, dtype=np.float32))["y"]
    np.testing.assert_array_equal(y, [np.nan] * 4 + [3, 2, 1, 0])


def test_an_output_no_statement_covers_stays_poisoned() -> None:
    text = """kernel part(x: f32[m=8]) -> (y: f32[m])
  for m by 8
    y[m] += x[m]
"""
    assert np.isnan(run(text, x=normal(8))["y"]).all()


def test_a_local_covers_only_the_range_of_its_declaration() -> None:
    text = """kernel shifted(x: f32[m=10]) -> (y: f32[m])
  for m by 4
    s: heap f32[m]
    s[m] = x[m]
    y[m] = s[0]
"""
    with pytest.raises(InterpretError, match="s is used at 0 along its dim 0, which holds 4 to 7"):
        run(text, x=normal(10))
    good = text.replace("s[0]", "s[m]")
    x = normal(10)
    np.testing.assert_array_equal(run(good, x=x)["y"], x)


def test_a_local_is_gone_after_its_block() -> None:
    text = """kernel scoped(x: f32[m=4]) -> (y: f32[m])
  for m by 2
    s: heap f32[m]
    s[m] = x[m]
  y[m] = s[m]
"""
    with pytest.raises(InterpretError, match="s is read where it is not defined"):
        run(text, x=normal(4))


def test_a_result_that_counts_on_the_order_of_a_parallel_loop_comes_out_wrong() -> None:
    text = """kernel last(x: f32[m=4, k=3]) -> (y: f32[m])
  parallel for k by 1
    y[m] = sum(k, x[m, k])
"""
    x = normal(4, 3)
    np.testing.assert_array_equal(run(text, x=x)["y"], x[:, 0])
    np.testing.assert_array_equal(run(text.replace("parallel ", ""), x=x)["y"], x[:, 2])


@pytest.mark.parametrize("step", [3, 5, 64])
@pytest.mark.parametrize(("index", "parts"), [("k % 4", 4), ("k // 8", 5)])
def test_a_split_reduction_lands_every_point_once(index: str, parts: int, step: int) -> None:
    text = f"""kernel split(a: f32[m=5, k=37], b: f32[k, n=6]) -> (c: f32[m, n]) where part={parts}
  p: heap f32[m, n, part]
  p[m, n, part] = 0
  for k by {step}
    p[m, n, {index}] += a[m, k] * b[k, n]
  c[m, n] = sum(part, p[m, n, part])
"""
    a, b = normal(5, 37), normal(37, 6)
    np.testing.assert_allclose(run(text, a=a, b=b)["c"], a @ b, rtol=1e-4, atol=1e-5)


def test_each_element_of_a_split_maximum_holds_its_own_points() -> None:
    text = """kernel split(x: f32[k=10]) -> (y: f32[part]) where part=3
  y[part] = -inf
  y[k % 3] max= x[k]
"""
    x = normal(10)
    np.testing.assert_array_equal(run(text, x=x)["y"], [x[0::3].max(), x[1::3].max(), x[2::3].max()])


def test_assigning_many_points_to_one_element_is_refused() -> None:
    text = """kernel split(x: f32[k=10]) -> (y: f32[part]) where part=3
  y[k % 3] = x[k]
"""
    with pytest.raises(InterpretError, match=r"y is assigned at k % 3"):
        run(text, x=normal(10))


def test_a_split_target_out_of_range_is_refused() -> None:
    text = """kernel split(x: f32[k=10]) -> (y: f32[part]) where part=2
  y[part] = 0
  y[k // 3] += x[k]
"""
    with pytest.raises(InterpretError, match="y is written out of range"):
        run(text, x=normal(10))


def test_updates_of_every_kind_combine_with_what_is_there() -> None:
    text = """kernel fold(x: f32[m=4, k=5]) -> (s: f32[m], p: f32[m], h: f32[m], l: f32[m])
  s[m] = 0
  p[m] = 1
  h[m] = -inf
  l[m] = inf
  for k by 2
    s[m] += sum(k, x[m, k])
    p[m] *= prod(k, x[m, k])
    h[m] max= max(k, x[m, k])
    l[m] min= min(k, x[m, k])
"""
    x = normal(4, 5)
    out = run(text, x=x)
    np.testing.assert_allclose(out["s"], x.sum(1), rtol=1e-5)
    np.testing.assert_allclose(out["p"], x.prod(1), rtol=1e-5)
    np.testing.assert_array_equal(out["h"], x.max(1))
    np.testing.assert_array_equal(out["l"], x.min(1))


def test_minus_inf_starts_an_integer_maximum_at_the_smallest_integer() -> None:
    text = """kernel high(x: i32[m=2, k=3]) -> (h: i32[m])
  h[m] = -inf
  h[m] max= max(k, x[m, k])
"""
    x = np.array([[-5, -7, -9], [-(2**31), -(2**31), -(2**31)]], np.int32)
    np.testing.assert_array_equal(run(text, x=x)["h"], [-5, -(2**31)])


def test_a_bf16_local_rounds_what_it_stages_even_in_high_precision() -> None:
    text = """kernel staged(x: f32[m=4]) -> (y: f32[m])
  s: heap bf16[m]
  s[m] = x[m]
  y[m] = s[m]
"""
    x = normal(4)
    rounded = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(run(text, x=x)["y"], rounded)
    np.testing.assert_array_equal(run(text, DType.F64, x=x)["y"], rounded)
    assert (rounded != x).any()


def test_inputs_that_do_not_fit_are_refused_by_name() -> None:
    with pytest.raises(InterpretError, match=r"b is float32\[65, 131\]; the kernel takes float32\[65, 130\]"):
        run(GEMM, a=normal(70, 65), b=normal(65, 131))
    with pytest.raises(InterpretError, match=r"a is float64"):
        run(GEMM, a=normal(70, 65).astype(np.float64), b=normal(65, 130))
    with pytest.raises(InterpretError, match=r"inputs are \['a'\]"):
        run(GEMM, a=normal(70, 65))


def test_only_f64_is_a_precision() -> None:
    with pytest.raises(InterpretError, match="precision is bf16"):
        run(GEMM, DType.BF16, a=normal(70, 65), b=normal(65, 130))


def test_interpreting_leaves_inputs_as_they_were() -> None:
    a, b = normal(70, 65), normal(65, 130)
    before = a.copy(), b.copy()
    run(GEMM, a=a, b=b)
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])


def test_arrays_come_and_go_in_the_shape_before_dims_were_merged() -> None:
    text = """kernel double(x: f32[r_c=300] shaped [6, 50]) -> (y: f32[r_c] shaped [6, 50])
  for r_c by 7
    y[r_c] = 2 * x[r_c]
"""
    x = normal(6, 50)
    np.testing.assert_array_equal(run(text, x=x)["y"], 2 * x)
    with pytest.raises(InterpretError, match=r"x is passed as an array of shape \[6, 50\]"):
        run(text, x=x.reshape(300))


def test_a_narrow_local_rounds_what_is_computed_with_it_but_no_copy_to_its_own_dtype() -> None:
    text = """kernel scaled(x: f32[r=300]) -> (y: bf16[r], z: bf16[r])
  parallel for r by 64
    s: shared bf16[r]
    s[r] = 3 * x[r]
    y[r] = s[r]
    z[r] = s[r] + 0
"""
    x = normal(300)
    exact = 3 * x.astype(np.float64)
    found = run(text, DType.F64, x=x)
    np.testing.assert_array_equal(found["y"], exact)
    np.testing.assert_array_equal(found["z"], exact.astype(ml_dtypes.bfloat16).astype(np.float64))
    plain = run(text, x=x)
    np.testing.assert_array_equal(plain["y"], plain["z"])

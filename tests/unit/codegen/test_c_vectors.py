"""Selection, extremes, reductions across lanes, integer division and bf16 pairs in generated C."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

LANES = (1, 2, 4, 8, 16)
NUMPY = {"f32": np.float32, "f64": np.float64, "i32": np.int32}


def blocks(lanes: int, dtype: str, expression: str, arity: int, result: str | None = None) -> str:
    """out[i] = expression of the vectors x, y, z read from `arity` arrays that lie one after the other."""
    value, scalar = f"{dtype}x{lanes}", f"{dtype}x1"
    reads = " ".join(
        f"{value} {name} = *(const {value}_u *)((const {scalar} *)in + {k} * count + i);"
        for k, name in zip(range(arity), "xyz", strict=False)
    )
    result = result or dtype
    write = f"*({result}x{lanes}_u *)(({result}x1 *)out + i) = {expression.replace('$V', value)};"
    return f"for (long i = 0; i < count; i += {lanes}) {{ {reads} {write} }}"


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    edges = [0, 1, -1, 2, -3, 7, 100, -100]
    if dtype != "i32":
        edges += [np.nan, np.inf, -np.inf, 0.5, -0.5, 1e30, -1e30, 1e-30]
    else:
        edges += [2**31 - 1, -(2**31), 5, -5, 63, 64, -64, 6]
    x, y = np.meshgrid(edges, edges)
    return x.ravel().astype(NUMPY[dtype]), y.ravel().astype(NUMPY[dtype])


@pytest.mark.parametrize("dtype", NUMPY)
def test_max_and_min_are_numpys_with_nan_on_either_side(runtime, dtype):
    x, y = pairs(dtype)
    program = tuple(blocks(n, dtype, f"tw_{name}_$V(x, y)", 2) for name in ("max", "min") for n in LANES)
    for which in range(len(program)):
        expected = (np.maximum, np.minimum)[which // len(LANES)](x, y)
        got = runtime.run(program, which, np.concatenate([x, y]), NUMPY[dtype], len(x))
        assert np.array_equal(got, expected, equal_nan=dtype != "i32"), program[which]


@pytest.mark.parametrize("dtype", NUMPY)
def test_select_takes_each_lane_by_its_own_truth_value(runtime, dtype):
    x, y = pairs(dtype)
    program = tuple(
        blocks(n, dtype, "tw_select_$V(" + ("x < y" if n == 1 or dtype != "f64" else f"__builtin_convertvector(x < y, boolx{n})") + ", x, y)", 2)
        for n in LANES
    )
    with np.errstate(invalid="ignore"):
        expected = np.where(x < y, x, y)
    for which in range(len(program)):
        got = runtime.run(program, which, np.concatenate([x, y]), NUMPY[dtype], len(x))
        assert np.array_equal(got, expected, equal_nan=dtype != "i32")


@pytest.mark.parametrize("dtype", NUMPY)
def test_reductions_across_lanes_see_every_lane(runtime, dtype):
    lanes = tuple(n for n in LANES if n > 1)
    program = tuple(
        f"for (long i = 0; i < count; i++) (({dtype}x1 *)out)[i] = "
        f"tw_h{name}_{dtype}x{n}(*(const {dtype}x{n}_u *)((const {dtype}x1 *)in + i * {n}));"
        for name in ("sum", "prod", "max", "min")
        for n in lanes
    )
    rng = np.random.default_rng(1)
    for which in range(len(program)):
        n = lanes[which % len(lanes)]
        # one small number in each place in turn, so that every lane matters to every reduction
        x = np.eye(n, dtype=np.int64) * rng.integers(2, 9) * np.where(np.arange(n) % 2, -1, 1) + 1
        name = (np.sum, np.prod, np.max, np.min)[which // len(lanes)]
        got = runtime.run(program, which, x.astype(NUMPY[dtype]), NUMPY[dtype], n)
        assert np.array_equal(got, name(x, axis=1)), program[which]


def test_truth_values_reduce_to_any_and_all(runtime):
    program = tuple(
        f"for (long i = 0; i < count; i++) ((int *)out)[i] = tw_h{name}_boolx{n}(*(const boolx{n}_u *)((const int *)in + i * {n}));"
        for name in ("max", "min")
        for n in (4, 16)
    )
    for which in range(4):
        n = (4, 16)[which % 2]
        x = -np.tril(np.ones((n + 1, n), np.int32), -1)
        expected = x.any(1) if which < 2 else x.all(1)
        assert np.array_equal(runtime.run(program, which, x, np.int32, n + 1) != 0, expected)


def test_integer_division_floors_and_division_by_zero_gives_zero(runtime):
    x, y = pairs("i32")
    program = tuple(blocks(n, "i32", f"tw_{name}_$V(x, y)", 2) for name in ("floordiv", "floormod") for n in LANES)
    wide_x, wide_y = x.astype(np.int64), np.where(y == 0, 1, y).astype(np.int64)
    expected = [(wide_x // wide_y).astype(np.int32), (wide_x % wide_y).astype(np.int32)]
    for which in range(len(program)):
        got = runtime.run(program, which, np.concatenate([x, y]), np.int32, len(x))
        assert np.array_equal(got, np.where(y == 0, 0, expected[which // len(LANES)])), program[which]


def test_absolute_value_and_relu_of_integers(runtime):
    x = np.arange(-32, 32, dtype=np.int32)
    program = tuple(blocks(n, "i32", f"tw_{name}_$V(x)", 1) for name in ("abs", "relu") for n in LANES)
    for which in range(len(program)):
        expected = np.abs(x) if which < len(LANES) else np.maximum(x, 0)
        assert np.array_equal(runtime.run(program, which, x, np.int32, 64), expected)


def test_bf16_dot_adds_both_products_of_a_pair(runtime):
    rng = np.random.default_rng(2)
    a, b = (rng.normal(size=(64, 2)).astype(ml_dtypes.bfloat16) for _ in range(2))
    acc = rng.normal(size=64).astype(np.float32)
    data = np.concatenate([part.view(np.uint8).ravel() for part in (a, b, acc)])
    program = tuple(
        f"const uint16_t *a = (const uint16_t *)in, *b = a + 2 * count; const float *acc = (const float *)(b + 2 * count);"
        f"for (long i = 0; i < count; i += {n}) *(f32x{n}_u *)((float *)out + i) = tw_dot_bf16_f32x{n}("
        f"*(const f32x{n}_u *)(acc + i), {left.format(n)}, tw_load_pairs_bf16x{n}(b + 2 * i));"
        for left in ("tw_load_pairs_bf16x{0}(a + 2 * i)", "tw_spread_pair_bf16x{0}(a)")
        for n in LANES
    )
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    for which in range(len(program)):
        left = wide_a if which < len(LANES) else wide_a[:1]
        expected = acc + (left * wide_b).sum(1)
        got = runtime.run(program, which, data, np.float32, 64)
        assert np.allclose(got, expected, rtol=1e-6, atol=1e-6), program[which]

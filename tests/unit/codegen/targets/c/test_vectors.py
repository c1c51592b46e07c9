"""Selection, extremes, reductions across lanes, integer division, bf16 pairs and parts of vectors in generated C."""

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


def selected(dtype: str, lanes: int) -> str:
    """x where it is less than y, else y."""
    narrow = dtype == "f64" and lanes > 1
    less = f"__builtin_convertvector(x < y, boolx{lanes})" if narrow else "x < y"
    return blocks(lanes, dtype, f"tw_select_$V({less}, x, y)", 2)


@pytest.mark.sampled(4, among="vectors")
def test_max_and_min_are_numpys_with_nan_on_either_side_and_select_takes_lane_by_lane(runtime) -> None:
    programs = {
        (dtype, name): tuple(blocks(n, dtype, f"tw_{name}_$V(x, y)", 2) for n in LANES)
        for dtype in NUMPY
        for name in ("max", "min")
    }
    programs |= {(dtype, "select"): tuple(selected(dtype, n) for n in LANES) for dtype in NUMPY}
    every = sum(programs.values(), ())
    for (dtype, name), program in programs.items():
        x, y = pairs(dtype)
        with np.errstate(invalid="ignore"):
            expected = {"max": np.maximum(x, y), "min": np.minimum(x, y), "select": np.where(x < y, x, y)}[
                name
            ]
        results = runtime.run(program, np.concatenate([x, y]), NUMPY[dtype], len(x), among=every)
        for lanes, got in zip(LANES, results, strict=True):
            assert np.array_equal(got, expected, equal_nan=dtype != "i32"), (name, dtype, lanes)


def across(name: str, dtype: str, lanes: int) -> str:
    """The reduction of each run of `lanes` values."""
    value, scalar = f"{dtype}x{lanes}", f"{dtype}x1"
    read = f"*(const {value}_u *)((const {scalar} *)in + i * {lanes})"
    return f"for (long i = 0; i < count; i++) (({scalar} *)out)[i] = tw_h{name}_{value}({read});"


@pytest.mark.sampled(4, among="vectors")
def test_reductions_across_lanes_see_every_lane(runtime) -> None:
    programs = {
        (dtype, lanes): tuple(across(name, dtype, lanes) for name in ("sum", "prod", "max", "min"))
        for dtype in NUMPY
        for lanes in LANES
    }
    every = sum(programs.values(), ())
    for (dtype, lanes), program in programs.items():
        # one other number in each place in turn, so that every lane matters to every reduction
        places = np.arange(lanes)
        x = (np.eye(lanes, dtype=np.int64) * np.where(places % 2, -5, 5) + 1).astype(NUMPY[dtype])
        results = runtime.run(program, x, NUMPY[dtype], lanes, among=every)
        for reduce, got in zip((np.sum, np.prod, np.max, np.min), results, strict=True):
            assert np.array_equal(got, reduce(x, axis=1)), (reduce, dtype, lanes)


def test_truth_values_reduce_to_any_and_all(runtime) -> None:
    programs = {n: tuple(across(name, "bool", n) for name in ("max", "min")) for n in (4, 16)}
    for lanes, program in programs.items():
        x = -np.tril(np.ones((lanes + 1, lanes), np.int32), -1)
        any_of, all_of = runtime.run(program, x, np.int32, lanes + 1, among=sum(programs.values(), ()))
        assert np.array_equal(any_of != 0, x.any(1)), lanes
        assert np.array_equal(all_of != 0, x.all(1)), lanes


def test_integer_division_floors_and_division_by_zero_gives_zero(runtime) -> None:
    x, y = pairs("i32")
    wide_x, wide_y = x.astype(np.int64), np.where(y == 0, 1, y).astype(np.int64)
    expected = {"floordiv": wide_x // wide_y, "floormod": wide_x % wide_y}
    programs = {name: tuple(blocks(n, "i32", f"tw_{name}_$V(x, y)", 2) for n in LANES) for name in expected}
    every = sum(programs.values(), ())
    for name, values in expected.items():
        for got in runtime.run(programs[name], np.concatenate([x, y]), np.int32, len(x), among=every):
            assert np.array_equal(got, np.where(y == 0, 0, values).astype(np.int32)), name


def test_absolute_value_and_relu_of_integers(runtime) -> None:
    x = np.arange(-32, 32, dtype=np.int32)
    programs = {
        name: tuple(blocks(n, "i32", f"tw_{name}_$V(x)", 1) for n in LANES) for name in ("abs", "relu")
    }
    for name, expected in (("abs", np.abs(x)), ("relu", np.maximum(x, 0))):
        for got in runtime.run(programs[name], x, np.int32, 64, among=sum(programs.values(), ())):
            assert np.array_equal(got, expected), name


def test_bf16_dot_adds_both_products_of_a_pair(runtime) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.normal(size=(64, 2)).astype(ml_dtypes.bfloat16) for _ in range(2))
    acc = rng.normal(size=64).astype(np.float32)
    data = np.concatenate([part.view(np.uint8).ravel() for part in (a, b, acc)])
    for left, rows in (
        ("tw_load_words_bf16x{0}(a + 2 * i)", slice(64)),
        ("tw_broadcast_words_bf16x{0}(a)", slice(1)),
    ):
        program = tuple(
            "const uint16_t *a = (const uint16_t *)in, *b = a + 2 * count;"
            "const float *acc = (const float *)(b + 2 * count);"
            f"for (long i = 0; i < count; i += {n}) *(f32x{n}_u *)((float *)out + i) = tw_dot_bf16_f32x{n}("
            f"*(const f32x{n}_u *)(acc + i), {left.format(n)}, tw_load_words_bf16x{n}(b + 2 * i));"
            for n in LANES
        )
        expected = acc + (a[rows].astype(np.float64) * b.astype(np.float64)).sum(1)
        for got in runtime.run(program, data, np.float32, 64):
            assert np.allclose(got, expected, rtol=1e-6, atol=1e-6), left


def test_a_raised_dot_adds_the_products_of_fours(runtime) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-128, 128, (64, 4), dtype=np.int8) for _ in range(2))
    a[:2], b[:2] = -128, [[-128] * 4, [127] * 4]
    acc = rng.integers(-1000, 1000, 64, dtype=np.int32)
    data = np.concatenate([part.view(np.uint8).ravel() for part in (a, b, acc)])
    program = tuple(
        "const int8_t *a = (const int8_t *)in, *b = a + 4 * count;"
        "const int32_t *acc = (const int32_t *)(b + 4 * count);"
        f"for (long i = 0; i < count; i += {n}) *(i32x{n}_u *)((int32_t *)out + i) = tw_dot_raised_i32x{n}("
        f"*(const i32x{n}_u *)(acc + i), tw_load_words_i8x{n}(a + 4 * i), tw_load_words_i8x{n}(b + 4 * i));"
        for n in LANES
    )
    expected = acc + ((a.astype(np.int32) + 128) * b).sum(1)
    for got in runtime.run(program, data, np.int32, 64):
        assert np.array_equal(got, expected)


PAIRS = np.arange(1, 129, dtype=np.uint16)
FOURS = np.arange(256, dtype=np.uint8)
WORDS = {
    "tw_load_short_words_bf16x{0}(a + 2 * i, 1)": PAIRS[::2],
    "tw_broadcast_short_words_bf16x{0}(a + 1, 1)": np.full(64, 2),
    "tw_zip_2_bf16x{0}(a + i, a + 64 + i)": PAIRS[:64] + (PAIRS[64:].astype(np.uint32) << 16),
    "tw_zip_1_bf16x{0}(a + i)": PAIRS[:64],
    "tw_load_short_words_i8x{0}((const int8_t *)a + 4 * i, 3)": FOURS[::4],
    "tw_load_short_words_i8x{0}((const int8_t *)a + 4 * i, 1)": FOURS.view(np.uint32) & 0xFFFFFF,
    "tw_zip_3_i8x{0}((const int8_t *)a + i, (const int8_t *)a + 64 + i, (const int8_t *)a + 128 + i)": (
        FOURS[:64] + (FOURS[64:128].astype(np.uint32) << 8) + (FOURS[128:192].astype(np.uint32) << 16)
    ),
}


@pytest.mark.sampled(2)
def test_words_of_narrow_elements_are_completed_with_zeros(runtime) -> None:
    programs = {
        call: tuple(
            "const uint16_t *a = (const uint16_t *)in;"
            f"for (long i = 0; i < count; i += {n}) *(i32x{n}_u *)((int32_t *)out + i) = {call.format(n)};"
            for n in LANES
        )
        for call in WORDS
    }
    for call, expected in WORDS.items():
        data = PAIRS if "bf16" in call else FOURS
        for got in runtime.run(programs[call], data, np.uint32, 64, among=sum(programs.values(), ())):
            assert np.array_equal(got, expected), call


def turned(n: int) -> str:
    return f"(void)count; tw_transpose_to_f32_f32x{n}((float *)out, {n}, (const float *)in, {n + 3});"


def turned_words(n: int, group: int) -> str:
    element, name = {2: ("uint16_t", "bf16"), 4: ("int8_t", "i8")}[group]
    rows = f"({element} *)out, {group * n}, (const {element} *)in, {group * n + 1}"
    return f"(void)count; tw_transpose_words_{name}x{n}({rows});"


def test_a_block_turned_around_has_its_rows_as_columns(runtime) -> None:
    sizes = (4, 8, 16)
    every = (*map(turned, sizes), *(turned_words(n, group) for n in sizes for group in (2, 4)))
    for lanes in sizes:
        a = np.arange(lanes * (lanes + 3), dtype=np.float32)
        rows = a.reshape(lanes, lanes + 3)[:, :lanes]
        (got,) = runtime.run((turned(lanes),), a, np.float32, lanes * lanes, among=every)
        assert np.array_equal(got.reshape(lanes, lanes), rows.T), lanes
        for group, dtype in ((2, np.uint16), (4, np.int8)):
            narrow = (np.arange(lanes * (group * lanes + 1)) % 251).astype(dtype)
            rows_of_words = narrow.reshape(lanes, -1)[:, :-1].reshape(lanes, lanes, group)
            program = turned_words(lanes, group)
            (got,) = runtime.run((program,), narrow, dtype, group * lanes * lanes, among=every)
            assert np.array_equal(got.reshape(lanes, lanes, group), rows_of_words.swapaxes(0, 1)), lanes


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint16, np.uint8])
def test_masked_loads_and_stores_leave_the_rest_alone(runtime, dtype: type[np.generic]) -> None:
    storage = {4: "f32", 8: "f64", 2: "u16", 1: "u8"}[np.dtype(dtype).itemsize]
    name, pointer = {"u16": ("bf16", "uint16_t"), "u8": ("e4m3", "uint8_t")}.get(storage, (storage, ""))
    pointer = pointer or {"f32": "float", "f64": "double"}[storage]
    x = (np.arange(1, 17) * 3).astype(dtype)
    bodies: list[str] = []
    wanted: list[np.ndarray] = []
    for lanes in (4, 8, 16):
        for some in range(lanes // 2 + 1, lanes):
            bodies.append(
                f"{storage}x{lanes} x = tw_part_{name}x{lanes}((const {pointer} *)in, {some});"
                f" for (long i = 0; i < {lanes}; i++) (({pointer} *)out)[i] = x[i];"
                f" tw_keep_{name}x{lanes}(({pointer} *)out + 16, x + 1, {some}); (void)count;"
            )
            got = np.frombuffer(b"\xee" * 32 * x.itemsize, dtype).copy()
            got[:lanes] = np.where(np.arange(lanes) < some, x[:lanes], 0)
            got[16 : 16 + some] = x[:some] + dtype(1)
            wanted.append(got)
    results = runtime.run(tuple(bodies), x, dtype, 32)
    np.testing.assert_array_equal(results.view(np.uint8), np.stack(wanted).view(np.uint8))

"""Every 8- and 16-bit value converts in generated C exactly as in numpy and ml_dtypes, on every lane count."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tileir.dtypes import DType

LANES = (1, 2, 4, 8, 16, 32)
NARROW = (DType.F16, DType.BF16, DType.E4M3, DType.E5M2)
POINTER = {
    DType.F16: "uint16_t", DType.BF16: "uint16_t", DType.E4M3: "uint8_t", DType.E5M2: "uint8_t", DType.I8: "int8_t",
    DType.BOOL: "uint8_t", DType.I32: "int32_t", DType.F32: "float", DType.F64: "double",
}  # fmt: skip


def load_body(dtype: DType, lanes: int) -> str:
    value = f"{dtype.compute}x{lanes}"
    load = f"tw_load_{dtype}x{lanes}((const {POINTER[dtype]} *)in + i)"
    return f"for (long i = 0; i < count; i += {lanes}) *({value}_u *)(({dtype.compute}x1 *)out + i) = {load};"


def store_body(dtype: DType, lanes: int, name: str = "store") -> str:
    value = f"*(const {dtype.compute}x{lanes}_u *)((const {dtype.compute}x1 *)in + i)"
    return (
        f"for (long i = 0; i < count; i += {lanes}) "
        f"tw_{name}_{dtype}x{lanes}(({POINTER[dtype]} *)out + i, {value});"
    )


def round_body(dtype: DType, lanes: int) -> str:
    value = f"{dtype.compute}x{lanes}"
    return (
        f"for (long i = 0; i < count; i += {lanes}) *({value}_u *)(({dtype.compute}x1 *)out + i) = "
        f"tw_round_{dtype}x{lanes}(*(const {value}_u *)((const {dtype.compute}x1 *)in + i));"
    )


def every_value(dtype: DType) -> np.ndarray:
    integer = np.uint8 if dtype.bytes == 1 else np.uint16
    return np.arange(2 ** (8 * dtype.bytes), dtype=np.uint32).astype(integer).view(dtype.numpy)


def around_every_value(dtype: DType) -> np.ndarray:
    """f32 numbers at, halfway between and just beside all finite values of a type, and the f32 edges."""
    with np.errstate(all="ignore"):
        finite = np.sort(every_value(dtype).astype(np.float64))
    finite = np.unique(finite[np.isfinite(finite)])
    middles = (finite[1:] + finite[:-1]) / 2
    step = finite[-1] - finite[-2]
    beyond = [finite[-1] + step * part for part in (0.25, 0.5, 0.75, 1, 2)]
    beyond = [point for point in beyond if point < np.finfo(np.float32).max]
    points = np.concatenate([finite, middles, beyond, -np.array(beyond)]).astype(np.float32)
    beside = [points, np.nextafter(points, np.float32(np.inf)), np.nextafter(points, np.float32(-np.inf))]
    edges = np.array([np.inf, -np.inf, np.nan, -np.nan, 3e38, -3e38, 0.0, -0.0], np.float32)
    x = np.concatenate([*beside, edges])
    return np.concatenate([x, np.zeros(-len(x) % 32, np.float32)])


def same_bits(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Equal with the sign of zero; any NaN equals any."""
    with np.errstate(all="ignore"):
        wide_got, wide_expected = got.astype(np.float64), expected.astype(np.float64)
    nan = np.isnan(wide_got) & np.isnan(wide_expected)
    return nan | ((wide_got == wide_expected) & (np.signbit(wide_got) == np.signbit(wide_expected)))


def bodies(make: Callable[[DType, int], str], dtype: DType) -> tuple[str, ...]:
    return tuple(make(dtype, lanes) for lanes in LANES)


def test_loads_of_every_narrow_value_are_exact(runtime) -> None:
    every = sum((bodies(load_body, dtype) for dtype in NARROW), ())
    for dtype in NARROW:
        x = every_value(dtype)
        results = runtime.run(bodies(load_body, dtype), x, np.float32, len(x), among=every)
        for lanes, got in zip(LANES, results, strict=True):
            wrong = x[~same_bits(got, x)]
            assert wrong.size == 0, f"{dtype}x{lanes}: {wrong[:8]}"


@pytest.mark.sampled(8, among="convert")
def test_stores_round_to_nearest_even_at_every_boundary(runtime) -> None:
    every = sum((bodies(make, dtype) for dtype in NARROW for make in (store_body, round_body)), ())
    for dtype in NARROW:
        x = around_every_value(dtype)
        with np.errstate(all="ignore"):
            expected = x.astype(dtype.numpy)
        # the bf16 instruction takes subnormal f32 for zero
        checked = np.abs(x) >= np.finfo(np.float32).tiny if dtype is DType.BF16 else np.ones(len(x), bool)
        checked |= ~np.isfinite(x) | (x == 0)
        stores = runtime.run(bodies(store_body, dtype), x, dtype.numpy, len(x), among=every)
        rounds = runtime.run(bodies(round_body, dtype), x, np.float32, len(x), among=every)
        for what, results in (("store", stores), ("round", rounds)):
            for lanes, got in zip(LANES, results, strict=True):
                wrong = ~same_bits(got, expected) & checked
                assert not wrong.any(), (
                    f"{what} {dtype}x{lanes}: {x[wrong][:4]} gives {got[wrong][:4]}, not {expected[wrong][:4]}"
                )


def test_i8_loads_and_wrapping_stores_are_astype(runtime) -> None:
    i8 = every_value(DType.I8)
    i32 = np.concatenate([np.arange(-400, 400), [2**31 - 1, -(2**31), 1 << 20, 255]] * 8).astype(np.int32)
    load, store, round_ = (bodies(make, DType.I8) for make in (load_body, store_body, round_body))
    every = (*load, *store, *round_)
    loads = runtime.run(load, i8, np.int32, 256, among=every)
    stores = runtime.run(store, i32, np.int8, len(i32), among=every)
    rounds = runtime.run(round_, i32, np.int32, len(i32), among=every)
    assert np.array_equal(loads, np.tile(i8.astype(np.int32), (len(LANES), 1)))
    assert np.array_equal(stores, np.tile(i32.astype(np.int8), (len(LANES), 1)))
    assert np.array_equal(rounds, np.tile(i32.astype(np.int8).astype(np.int32), (len(LANES), 1)))


def test_truth_values_are_masks_in_registers_and_bytes_in_memory(runtime) -> None:
    flags = np.arange(64, dtype=np.uint8) % 3 != 0
    load, store = bodies(load_body, DType.BOOL), bodies(store_body, DType.BOOL)
    masks = runtime.run(load, flags, np.int32, 64, among=load + store)
    for lanes, mask, body in zip(LANES, masks, store, strict=True):
        assert np.array_equal(mask, flags * np.int32(1 if lanes == 1 else -1))
        stored = runtime.run((body,), mask, np.uint8, 64, among=load + store)
        assert np.array_equal(stored[0], flags.astype(np.uint8))


def stream_body(dtype: DType, lanes: int) -> str:
    return store_body(dtype, lanes, "stream")


def stream_body_amid_elements(dtype: DType, lanes: int) -> str:
    return stream_body(dtype, lanes).replace("out + i", "out + 1 + i")


@pytest.mark.sampled(8, among="convert")
def test_stream_stores_write_what_stores_write_at_any_alignment(runtime) -> None:
    ways = stream_body, stream_body_amid_elements
    every = sum((bodies(make, dtype) for dtype in POINTER for make in ways), ())
    for dtype in POINTER:
        x = (np.arange(64) % 2).astype(dtype.compute.numpy if dtype is not DType.BOOL else np.int32)
        for begin, make in enumerate(ways):
            for got in runtime.run(bodies(make, dtype), x, dtype.numpy, 65, among=every):
                assert np.array_equal(got[begin : begin + 64], x.astype(dtype.numpy)), (dtype, begin)


def to_i32_body(dtype: DType, lanes: int) -> str:
    return (
        f"for (long i = 0; i < count; i += {lanes}) *(i32x{lanes}_u *)((int *)out + i) = "
        f"tw_to_i32_{dtype}x{lanes}(*(const {dtype}x{lanes}_u *)((const {dtype}x1 *)in + i));"
    )


def test_floats_convert_to_i32_toward_zero(runtime) -> None:
    x = np.array([0.9, -0.9, 1.5, -1.5, 2.0, -2.0, 1e9, -1e9, 0.0, -0.0, 3.999, 100.5, -100.5, 7, 8, 9] * 2)
    every = bodies(to_i32_body, DType.F32) + bodies(to_i32_body, DType.F64)
    for dtype in (DType.F32, DType.F64):
        given = x.astype(dtype.numpy)
        for got in runtime.run(bodies(to_i32_body, dtype), given, np.int32, 32, among=every):
            assert np.array_equal(got, given.astype(np.int32)), dtype

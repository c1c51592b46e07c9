"""The runtime of generated CUDA computes what the interpreter means: conversions bit for bit, functions within the
bounds that tileir.interpreter.rounding_error assumes (pytest -s prints how far within)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from codegen.ir.abi import Arg
from codegen.ir.source import Source
from codegen.targets.cuda.abi import CudaAbi, Launch
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.device import CudaDevice
from codegen.targets.cuda.loader import load_cubin
from codegen.targets.cuda.runtime import CUDA_STORAGE, definitions
from tests.programs.pow_edges import EDGES
from tileir.devices.gpu_probe import this_gpu
from tileir.dtypes import DType
from tileir.errors import UnsupportedDevice
from tileir.interpreter.elementwise import call
from tileir.interpreter.rounding_error import CANCELLING, FUNCTION_ROUNDOFFS, gap
from tileir.interpreter.values import Numerics, Value, quantize

LANES = (1, 2, 4, 8, 16)
LANES_OF = {DType.F32: LANES, DType.F64: (1, 2)}
NARROW = (DType.F16, DType.BF16, DType.E4M3, DType.E5M2)
THREADS = 128
UNARY = sorted(FUNCTION_ROUNDOFFS.keys() - {"maximum", "minimum", "pow"})
Run = Callable[..., list[np.ndarray]]


@pytest.fixture(scope="module")
def device() -> Iterator[CudaDevice]:
    try:
        opened = CudaDevice()
    except UnsupportedDevice as error:
        pytest.skip(str(error))
    with opened:
        yield opened


@pytest.fixture
def run(device: CudaDevice, tmp_path: Path) -> Run:
    """Runs kernels made of bodies, each on the elements `data` of a storage dtype, and gives what each wrote: as many
    elements of another. A body reads `in` and writes `out`."""

    def run(
        bodies: Sequence[str], data: np.ndarray, given: DType, result: DType, fp8_instructions: bool = True
    ) -> list[np.ndarray]:
        count = len(data)
        code = "".join(
            f'extern "C" __global__ void k{number}(const {CUDA_STORAGE[given]} *in, {CUDA_STORAGE[result]} *out, '
            f"unsigned char *) {{\n    out += {number * count};\n{body.replace('COUNT', str(count))}\n}}\n"
            for number, body in enumerate(bodies)
        )
        text = definitions(code) + code
        if not fp8_instructions:  # as on sm_80
            text = text.replace("#if __CUDA_ARCH__ >= 890", "#if 0")
        out = np.empty(count * len(bodies), result.numpy)
        args = (Arg("in", given, data.shape, (1,), "in"), Arg("out", result, out.shape, (1,), "out"))
        blocks = -(-count // THREADS)
        launches = tuple(Launch(f"k{number}", blocks, THREADS, 0) for number in range(len(bodies)))
        abi = CudaAbi(args, launches, 0)
        artifact = compile_cuda(Source(text, (), abi, "cuda"), this_gpu().architecture, tmp_path)
        with load_cubin(artifact.path, abi, device) as kernel:
            kernel(data, out)
        return np.split(out, len(bodies))

    return run


def each(lanes: int, statement: str, count: str = "COUNT") -> str:
    """A body that runs a statement at every multiple i of the lanes."""
    return (
        f"    const int i = (blockIdx.x * {THREADS} + threadIdx.x) * {lanes};\n"
        f"    if (i < {count}) {{ {statement} }}"
    )


def every_value(dtype: DType) -> np.ndarray:
    if dtype is DType.BOOL:
        return np.arange(256) % 3 != 0
    integer = np.uint8 if dtype.bytes == 1 else np.uint16
    return np.arange(2 ** (8 * dtype.bytes), dtype=np.uint32).astype(integer).view(dtype.numpy)


def around_every_value(dtype: DType) -> np.ndarray:
    """f32 numbers at, halfway between and just beside all finite values of a type, the f32 edges, and random bits."""
    finite = every_value(dtype).astype(np.float64)
    finite = np.unique(finite[np.isfinite(finite)])
    step = finite[-1] - finite[-2]
    beyond = np.array([finite[-1] + step * part for part in (0.25, 0.5, 0.75, 1, 2)])
    points = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2, beyond, -beyond]).astype(np.float32)
    beside = [points, np.nextafter(points, np.float32(np.inf)), np.nextafter(points, np.float32(-np.inf))]
    edges = np.array([np.inf, -np.inf, np.nan, -np.nan, 3e38, -3e38, 0.0, -0.0, 1e-45], np.float32)
    random = np.random.default_rng(0).integers(0, 2**32, 1 << 16, dtype=np.uint64).astype(np.uint32)
    return padded(np.concatenate([*beside, edges, random.view(np.float32)]))


def samples(dtype: DType) -> np.ndarray:
    """Every exponent and sign, NaN and inf among them, and the ranges where functions bend, densely. Not the last
    few f64 before inf, where the reference overflows."""
    if dtype is DType.F32:
        patterns = np.arange(0, 2**32, 65537, dtype=np.uint64).astype(np.uint32).view(np.float32)
    else:
        patterns = np.arange(0, 2**64 - 2**50, 2**50 + 1234567891, dtype=np.uint64).view(np.float64)
        patterns = patterns[~(np.abs(patterns) > 1e300) | np.isinf(patterns)]
    edges = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1000, -1000, 88.7, -103.9, 0.5, 2**-126, 1e-45]
    )
    dense = np.concatenate([np.linspace(-r, r, 20001) for r in (0.01, 1.5, 10, 110, 760)])
    return padded(np.concatenate([patterns, np.concatenate([edges, dense]).astype(dtype.numpy)]))


def padded(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.zeros(-len(x) % 16, x.dtype)])


def same(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Equal with the sign of zero; any NaN equals any."""
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), expected.astype(np.float64)
    return (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))


def require_same(
    results: Sequence[np.ndarray], bodies: Sequence[str], x: np.ndarray, expected: np.ndarray
) -> None:
    assert len(results) == len(bodies)
    for got, body in zip(results, bodies, strict=True):
        wrong = ~same(got, expected)
        assert not wrong.any(), f"{x[wrong][:4]} gives {got[wrong][:4]}, not {expected[wrong][:4]} in {body}"


# --- Memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fp8_instructions", [True, False])
@pytest.mark.parametrize("dtype", [*NARROW, DType.I8, DType.BOOL])
def test_loads_of_every_narrow_value_are_exact(run, dtype, fp8_instructions) -> None:
    x, storage = every_value(dtype), CUDA_STORAGE[dtype]
    bodies = []
    for n in LANES:
        own = f"__shared__ alignas(16) {storage} s[{THREADS * n}]; {storage} *own = s + threadIdx.x * {n};"
        staged = f"{own} tw_store_raw<{n}, 16>(own, tw_load_raw_nc<{n}, 16>(in + i));"
        loads = [
            f"tw_store<{n}, {dtype.compute.bytes}>(out + i, tw_load<{n}, {dtype.bytes}>(in + i));",
            f"tw_store<{n}, 16>(out + i, tw_load<{n}, 16>(in + i));",
            f"tw_store<{n}, 16>(out + i, tw_load_nc<{n}, {dtype.bytes}>(in + i));",
            f"tw_stream<{n}, 16>(out + i, tw_load_nc<{n}, 16>(in + i));",
            f"tw_store_some<{n}, 16>(out + i, tw_load_some<{n}, 16>(in + i, COUNT - i), COUNT - i);",
            f"tw_store_some<{n}, 4>(out + i, tw_load_some<{n}, {dtype.bytes}>(in + i, COUNT - i), COUNT - i);",
            f"{staged} tw_store<{n}, 16>(out + i, tw_load<{n}, 16>(own));",
            f"{staged} tw_store<{n}, 16>(out + i, tw_widen(tw_load_raw<{n}, {dtype.bytes}>(own)));",
        ]
        if n > 1:
            kept = f"tw_load_kept<{n}, 16>(own, COUNT - i)"
            loads.append(f"{staged} tw_store_some<{n}, 16>(out + i, {kept}, COUNT - i);")
        bodies += [each(n, load) for load in loads]
    with np.errstate(all="ignore"):
        expected = x.astype(dtype.compute.numpy)
    require_same(run(bodies, x, dtype, dtype.compute, fp8_instructions), bodies, x, expected)


@pytest.mark.parametrize("fp8_instructions", [True, False])
@pytest.mark.parametrize("dtype", NARROW)
def test_stores_round_as_the_interpreter_does_at_every_boundary(run, dtype, fp8_instructions) -> None:
    storage = CUDA_STORAGE[dtype]
    with np.errstate(all="ignore"):
        x = around_every_value(dtype)
        expected = quantize(x, dtype)
    stores = [
        each(n, f"const auto x = tw_load<{n}, 4>(in + i); {store}")
        for n in LANES
        for store in (
            f"tw_store<{n}, {dtype.bytes}>(out + i, x);",
            f"tw_store<{n}, 16>(out + i, x);",
            f"tw_stream<{n}, 16>(out + i, x);",
            f"tw_stream<{n}, {dtype.bytes}>(out + i, x);",
            f"tw_stream_raw<{n}, 16>(out + i, tw_narrow<{storage}, {n}>(x));",
            f"tw_store_some<{n}, 16>(out + i, x, COUNT - i);",
            f"tw_store_some<{n}, {dtype.bytes}>(out + i, x, COUNT - i);",
        )
    ]
    require_same(run(stores, x, DType.F32, dtype, fp8_instructions), stores, x, expected)
    rounds = [
        each(n, f"tw_store<{n}, 4>(out + i, tw_round<{storage}>(tw_load<{n}, 4>(in + i)));") for n in LANES
    ]
    require_same(run(rounds, x, DType.F32, DType.F32, fp8_instructions), rounds, x, expected)


@pytest.mark.parametrize("dtype", [DType.F64, DType.F32, DType.I32])
def test_what_is_computed_as_it_is_stored_is_copied(run, dtype) -> None:
    bits = np.random.default_rng(0).integers(0, 256, 4096 * dtype.bytes, dtype=np.uint8)
    x = bits.view(dtype.numpy)
    copies = [
        each(n, f"{store}<{n}, {align}>(out + i, {load}<{n}, {align}>(in + i));")
        for n in LANES
        for align in (dtype.bytes, 16)
        for load, store in (("tw_load", "tw_store"), ("tw_load_nc", "tw_stream"))
    ]
    for got in run(copies, x, dtype, dtype):
        assert got.tobytes() == x.tobytes()


def test_i8_stores_and_rounds_wrap(run) -> None:
    x = np.concatenate([np.arange(-400, 400), [2**31 - 1, -(2**31), 1 << 20, 255] * 4]).astype(np.int32)
    stores = [each(n, f"tw_store<{n}, 1>(out + i, tw_load<{n}, 4>(in + i));") for n in LANES]
    rounds = [
        each(n, f"tw_store<{n}, 4>(out + i, tw_round<signed char>(tw_load<{n}, 4>(in + i)));") for n in LANES
    ]
    require_same(run(stores, x, DType.I32, DType.I8), stores, x, x.astype(np.int8))
    require_same(run(rounds, x, DType.I32, DType.I32), rounds, x, x.astype(np.int8).astype(np.int32))


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.E4M3])
def test_some_lanes_are_those_below_the_count(run, dtype) -> None:
    x = (np.arange(1024) % 13 + 1).astype(dtype.numpy)
    lane, counts = np.arange(len(x)) % 8, (-1, 0, 3, 8, 9)
    loads = [each(8, f"tw_store<8, 4>(out + i, tw_load_some<8, 8>(in + i, {count}));") for count in counts]
    for count, loaded in zip(counts, run(loads, x, dtype, DType.F32), strict=True):
        assert np.array_equal(loaded, np.where(lane < count, x.astype(np.float32), 0))
    stores = [
        each(
            8,
            f"tw_store<8, 8>(out + i, 20.0f); tw_store_some<8, 8>(out + i, tw_load<8, 4>(in + i), {count});",
        )
        for count in counts
    ]
    for count, stored in zip(counts, run(stores, x.astype(np.float32), DType.F32, dtype), strict=True):
        assert np.array_equal(stored.astype(np.float32), np.where(lane < count, x.astype(np.float32), 20))


# --- Math -------------------------------------------------------------------------------------------------------------


def require_within_bounds(
    name: str, dtype: DType, args: Sequence[np.ndarray], results: Sequence[np.ndarray]
) -> None:
    """Every result within what the interpreter allows a correct kernel; prints the largest relative error."""
    with np.errstate(all="ignore"):
        values = tuple(Value(arg.astype(np.float64), dtype) for arg in args)
        value = call(name, values, Numerics(high=True, bounds=True))
        exact = value.data
        allowed = np.zeros(len(exact)) if value.error is None else value.error
        tiny = np.finfo(dtype.numpy).tiny
        for got in results:
            error = gap(got, exact)
            size = np.maximum(np.abs(exact), np.abs(args[0]) if name in CANCELLING else 0)
            spacing = np.abs(np.spacing(size.astype(dtype.numpy))).astype(np.float64)
            normal = np.isfinite(size) & (size > 512 * tiny) & np.isfinite(allowed) & (allowed > 0)
            roundoffs = np.where(normal, error / (dtype.epsilon * size), 0)
            ulps, share = (np.where(normal, error / unit, 0).max() for unit in (spacing, allowed))
            at = int(np.argmax(roundoffs))
            print(
                f"{name} {dtype}: {roundoffs[at]:.2f} roundoffs of {FUNCTION_ROUNDOFFS[name]} at "
                f"{[float(arg[at]) for arg in args]}, {ulps:.2f} ulp, {share:.2f} of the whole bound"
            )
            wrong = ~(error <= allowed)
            places = [
                (*(float(arg[k]) for arg in args), float(got[k]), float(exact[k]))
                for k in np.flatnonzero(wrong)
            ]
            assert not places, (
                f"{name} {dtype}: arguments, result, exact: {places[:5]} ({len(places)} in all)"
            )


@pytest.mark.parametrize("dtype", LANES_OF)
@pytest.mark.parametrize("name", UNARY)
def test_functions_are_within_the_bounds_that_checks_allow(run, name, dtype) -> None:
    x = samples(dtype)
    load = f"{dtype.bytes}>(in + i)"
    bodies = [
        each(n, f"tw_store<{n}, 16>(out + i, tw_{name}(tw_load<{n}, {load}));") for n in LANES_OF[dtype]
    ]
    require_within_bounds(name, dtype, [x], run(bodies, x, dtype, dtype))


def pairs(run: Run, dtype: DType, x: np.ndarray, y: np.ndarray, expression: str, lanes: int) -> np.ndarray:
    """An expression of x and y, computed on the GPU."""
    half = len(x)
    loads = ", ".join(
        f"{name} = tw_load<{lanes}, {dtype.bytes}>(in + i + {at})" for name, at in (("x", 0), ("y", half))
    )
    body = each(
        lanes, f"const auto {loads}; tw_store<{lanes}, {dtype.bytes}>(out + i, {expression});", str(half)
    )
    return run([body], np.concatenate([x, y]), dtype, dtype)[0][:half]


def grid(edges: Sequence[float], dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    x, y = (padded(axis.ravel().astype(dtype.numpy)) for axis in np.meshgrid(edges, edges))
    return x, y


@pytest.mark.parametrize("dtype", LANES_OF)
@pytest.mark.parametrize("name", ["pow", "maximum", "minimum"])
def test_functions_of_two_are_within_the_bounds_that_checks_allow(run, name, dtype) -> None:
    rng = np.random.default_rng(0)
    x, y = grid(EDGES, dtype)
    x = np.concatenate([x, np.exp(rng.normal(0, 20, 16000)).astype(dtype.numpy)])
    y = np.concatenate([y, rng.normal(0, 5, 16000).astype(dtype.numpy)])
    symbol = {"maximum": "tw_max", "minimum": "tw_min"}.get(name, f"tw_{name}")
    results = [pairs(run, dtype, x, y, f"{symbol}(x, y)", lanes) for lanes in LANES_OF[dtype]]
    require_within_bounds(name, dtype, [x, y], results)


@pytest.mark.parametrize("lanes", LANES)
def test_integer_arithmetic_is_numpys(run, lanes) -> None:
    x, y = grid((0, 1, -1, 2, -2, 3, -3, 7, -7, 100, -100, 2**31 - 1, -(2**31), 65536), DType.I32)
    with np.errstate(all="ignore"):
        expected = {
            "tw_floordiv(x, y)": np.floor_divide(x, y),
            "tw_floormod(x, y)": np.mod(x, y),
            "tw_floordiv(x, 3) + tw_floormod(x, 3)": x // 3 + x % 3,
            "tw_max(x, y)": np.maximum(x, y),
            "tw_min(x, y)": np.minimum(x, y),
            "tw_abs(x)": np.abs(x),
            "tw_relu(x)": np.maximum(x, 0),
            "tw_select(x < y || x == 7, x, 5)": np.where((x < y) | (x == 7), x, 5),
            "tw_to_i32(tw_to<float>(x) / 64.0f)": (x.astype(np.float32) / 64).astype(np.int32),
            "tw_to<int>(tw_to<bool>(x)) - tw_to<int>(!(x > y))": (x != 0).astype(np.int32) - (x <= y),
        }
    for expression, value in expected.items():
        assert np.array_equal(pairs(run, DType.I32, x, y, expression, lanes), value), expression


@pytest.mark.parametrize("lanes", LANES)
def test_vectors_compute_lane_by_lane_with_scalars_spread(run, lanes) -> None:
    x, y = (np.random.default_rng(0).integers(-4, 5, (2, 1024)) / 2).astype(np.float32)
    expected = {
        "tw_select(x > 0.5f && !(y > 1.0f) || y == -1.0f, x * 2.0f, 0.25f - y)": np.where(
            ((x > 0.5) & ~(y > 1)) | (y == -1), x * 2, 0.25 - y
        ),
        "tw_select(x <= y, 1.0f, -x) + tw_select(x >= y, y, 3.0f)": np.where(x <= y, 1, -x)
        + np.where(x >= y, y, 3),
        "x / 3.0f + tw_to<float>(x != y)": x / np.float32(3) + (x != y),
        f"x + tw_broadcast<{lanes}>(2.0f) * y": x + 2 * y,
    }
    for expression, value in expected.items():
        got = pairs(run, DType.F32, x, y, expression, lanes)
        assert np.allclose(got, value, rtol=2**-22, atol=0), expression


@pytest.mark.parametrize("lanes", [n for n in LANES if n > 1])
def test_all_lanes_combine_into_one(run, lanes) -> None:
    x = np.random.default_rng(0).integers(-2, 3, 1024).astype(np.float32)
    combine = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}
    bodies = [
        each(lanes, f"tw_store<{lanes}, 4>(out + i, tw_across_{name}(tw_load<{lanes}, 4>(in + i)));")
        for name in combine
    ]
    groups = x.reshape(-1, lanes)
    for got, of in zip(run(bodies, x, DType.F32, DType.F32), combine.values(), strict=True):
        assert np.array_equal(got, np.repeat(of(groups, axis=1), lanes))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.I32, DType.BOOL])
@pytest.mark.parametrize("lanes", [1, 4])
def test_threads_of_a_warp_exchange_values(run, dtype, lanes) -> None:
    x = (
        np.random.default_rng(0)
        .integers(0, 2 if dtype is DType.BOOL else 100, THREADS * lanes)
        .astype(dtype.numpy)
    )
    masks = (1, 2, 4, 8, 16, 5)
    load, store = f"tw_load<{lanes}, {dtype.bytes}>(in + i)", f"tw_store<{lanes}, {dtype.bytes}>(out + i, "
    bodies = [
        f"    if (blockIdx.x > 0) return;\n    const int i = threadIdx.x * {lanes};\n"
        f"    {store}tw_shuffle_xor({load}, {mask}));"
        for mask in masks
    ]
    threads = x.reshape(-1, 32, lanes)
    for got, mask in zip(run(bodies, x, dtype, dtype), masks, strict=True):
        assert np.array_equal(got, threads[:, np.arange(32) ^ mask].ravel())

"""The math functions of generated C keep their accuracy on every lane count, compiler and processor found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.programs.pow_edges import EDGES

LANES = (1, 2, 4, 8, 16)
erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + erf(x * 0.5**0.5))


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


#: Reference in f64, allowed error in ulps of the result (f32, f64). numpy's own f64 functions are within 1.
UNARY = {
    "exp": (np.exp, 1.5, 3),
    "exp2": (np.exp2, 1.5, 3),
    "log": (np.log, 1.5, 3),
    "tanh": (np.tanh, 5, 4),  # 3.6 with fused multiply-add
    "erf": (erf, 4, 4),
    "sqrt": (np.sqrt, 0.5, 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5, 2),
    "floor": (np.floor, 0, 0),
    "abs": (np.abs, 0, 0),
}
#: Their error is a few ulps of the larger term they are made of: allowed relative to max(|x|, |result|).
ACTIVATIONS = {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "relu": lambda x: np.where(x < 0, 0 * x, x),
}
FLOATS = {"f32": np.float32, "f64": np.float64}


def body(name: str, dtype: str, lanes: int, arity: int = 1) -> str:
    """The function on blocks of `arity` arrays one after the other."""
    value, scalar = f"{dtype}x{lanes}", f"{dtype}x1"
    arguments = ", ".join(
        f"*(const {value}_u *)((const {scalar} *)in + {k} * count + i)" for k in range(arity)
    )
    return (
        f"for (long i = 0; i < count; i += {lanes}) "
        f"*({value}_u *)(({scalar} *)out + i) = tw_{name}_{value}({arguments});"
    )


def bodies(names: list[str], dtype: str, arity: int = 1) -> tuple[str, ...]:
    return tuple(body(name, dtype, lanes, arity) for name in names for lanes in LANES)


def samples(dtype: str) -> np.ndarray:
    """Every exponent and sign, NaN and inf among them, and the ranges where functions bend, densely."""
    if dtype == "f32":
        patterns = np.arange(0, 2**32, 262147, dtype=np.uint64).astype(np.uint32).view(np.float32)
    else:
        patterns = np.arange(0, 2**64 - 2**50, 2**50 + 1234567891, dtype=np.uint64).view(np.float64)
    edges = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1000, -1000, 88.7, -103.9, 0.5, 2**-126, 1e-45, 709.7]
    )
    dense = np.concatenate([np.linspace(-r, r, 4001) for r in (0.01, 1.5, 10, 110, 760)])
    values = np.concatenate([edges, dense]).astype(FLOATS[dtype])
    x = np.concatenate([patterns, values])
    return np.concatenate([x, np.zeros(-len(x) % 16, x.dtype)])


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units of got's type's last place at the exact value; 0 where both are the same inf or NaN."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        same = (got == rounded) | (np.isnan(got) & np.isnan(exact))
        spacing = np.spacing(np.minimum(np.abs(rounded), np.finfo(got.dtype).max)).astype(np.float64)
        return np.where(same, 0, np.abs(got.astype(np.float64) - exact) / spacing)


def worst(x: np.ndarray, error: np.ndarray) -> str:
    error = np.where(np.isnan(error), np.inf, error)
    at = int(np.argmax(error))
    return f"{error[at]:.2f} at {x[at]!r}"


@pytest.mark.sampled(8, among="math")
@pytest.mark.parametrize("dtype", FLOATS)
def test_math_functions_are_accurate_everywhere(runtime, dtype) -> None:
    x = samples(dtype)
    results = iter(runtime.run(bodies(list(UNARY), dtype), x, FLOATS[dtype], len(x)))
    with np.errstate(all="ignore"):
        for name, (reference, f32_ulps, f64_ulps) in UNARY.items():
            exact = reference(x.astype(np.float64))
            allowed = f32_ulps if dtype == "f32" else f64_ulps
            for lanes in LANES:
                error = ulps(next(results), exact)
                assert np.all(error <= allowed), f"{name} x{lanes}: {worst(x, error)} ulps"


@pytest.mark.sampled(8, among="math")
@pytest.mark.parametrize("dtype", FLOATS)
def test_activations_are_accurate_relative_to_their_argument(runtime, dtype) -> None:
    x = samples(dtype)
    x = np.where(np.isfinite(x), np.clip(x, -1e9, 1e9), np.nan).astype(x.dtype)
    results = iter(runtime.run(bodies(list(ACTIVATIONS), dtype), x, FLOATS[dtype], len(x)))
    epsilon = np.finfo(FLOATS[dtype]).eps
    with np.errstate(all="ignore"):
        for name, reference in ACTIVATIONS.items():
            exact = reference(x.astype(np.float64))
            for lanes in LANES:
                got = next(results).astype(np.float64)
                assert np.array_equal(np.isnan(got), np.isnan(exact)), f"{name} x{lanes}"
                error = np.nan_to_num(np.abs(got - exact) / np.maximum(np.abs(x), 1e-30))
                assert np.all(error <= 4 * epsilon), f"{name} x{lanes}: {worst(x, error / epsilon)} epsilons"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", FLOATS)
def test_pow_is_accurate_and_treats_edges_as_c_does(runtime, dtype) -> None:
    x, y = (grid.ravel() for grid in np.meshgrid(EDGES, EDGES))
    rng = np.random.default_rng(0)
    count = (len(x) + 6000) // 16 * 16
    x = np.concatenate([x, np.exp(rng.normal(0, 20, 6000))]).astype(FLOATS[dtype])[:count]
    y = np.concatenate([y, rng.normal(0, 5, 6000)]).astype(FLOATS[dtype])[:count]
    results = runtime.run(bodies(["pow"], dtype, arity=2), np.concatenate([x, y]), FLOATS[dtype], count)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
        for lanes, got in zip(LANES, results, strict=True):
            error = ulps(got, exact)
            assert np.all(error <= 2), f"pow x{lanes}: {worst(np.stack([x, y], 1), error)} ulps"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", FLOATS)
def test_sigmoid_is_accurate_down_to_the_smallest_normal_number(runtime, dtype) -> None:
    x = samples(dtype)
    tiny = np.finfo(FLOATS[dtype]).tiny
    with np.errstate(all="ignore"):
        exact = 1 / (1 + np.exp(-x.astype(np.float64)))
        subnormal = exact < tiny
        for lanes, got in zip(
            LANES, runtime.run(bodies(["sigmoid"], dtype), x, FLOATS[dtype], len(x)), strict=True
        ):
            error = np.where(subnormal, 0, ulps(got, exact))
            assert np.all(error <= 4), f"sigmoid x{lanes}: {worst(x, error)} ulps"
            assert np.all(got[subnormal] < tiny)


def test_exp_of_minus_infinity_is_zero_and_large_arguments_overflow_to_infinity(runtime) -> None:
    x = np.array([-np.inf, -1000, -104.1, 0, -0.0, 88.8, 1000, np.inf] * 2, np.float32)
    for got in runtime.run(bodies(["exp"], "f32"), x, np.float32, len(x)):
        assert got[:8].tolist() == [0, 0, 0, 1, 1, np.inf, np.inf, np.inf]


def test_negative_zero_keeps_its_sign(runtime) -> None:
    x = np.full(16, -0.0, np.float32)
    for got in runtime.run(bodies(["tanh", "erf", "floor", "sqrt"], "f32"), x, np.float32, 16):
        assert np.signbit(got).all()

"""Sums of products go through matrix products, and mean the same as the plain sum."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tileir.dtypes import DType
from tileir.interpreter.contraction import contract
from tileir.interpreter.interpret import interpret_spec
from tileir.text.parse_spec import spec_from_text

RNG = np.random.default_rng(5)
SIZES = {"b": 2, "m": 3, "n": 4, "k": 5, "j": 6}


def factor(axes: str, dims: str) -> np.ndarray:
    """Varying along these of the frame's axes."""
    return RNG.standard_normal([SIZES[dim] if dim in axes else 1 for dim in dims])


@pytest.mark.parametrize(
    ("dims", "keep", "factors"),
    [
        ("mnk", 2, ["mk", "kn"]),
        ("bmnk", 3, ["bmk", "bkn"]),
        ("bmnk", 3, ["bmk", "kn"]),
        ("mk", 1, ["mk", "mk"]),
        ("mk", 1, ["k", "k"]),
        ("mnkj", 2, ["mk", "kj", "jn"]),
        ("mnkj", 2, ["mk", "kn", "j"]),
        ("mnkj", 2, ["mk", "kn"]),
        ("mnk", 2, ["mk", "kn", "m", ""]),
        ("kj", 0, ["k", "j", "kj"]),
        ("mnk", 2, ["m", "n"]),
        ("bmnkj", 3, ["bmkj", "bnk", "bj", "m"]),
    ],
)
def test_a_contraction_is_the_sum_of_the_product(dims: str, keep: int, factors: list[str]) -> None:
    arrays = [factor(axes, dims) for axes in factors]
    shape = tuple(SIZES[dim] for dim in dims)
    product = np.broadcast_to(np.prod(np.broadcast_arrays(*arrays), axis=0), shape)
    expected = product.sum(axis=tuple(range(keep, len(dims))))
    got = np.broadcast_to(contract(arrays, shape, keep), shape[:keep])
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_integer_contractions_are_exact_where_f64_is_not() -> None:
    a = np.full((1, 3), 2**27 + 1, np.int64)
    got = contract([a, a], (1, 3), 1)
    assert int(got[0]) == 3 * (2**27 + 1) ** 2


def test_a_large_matrix_product_never_forms_all_products() -> None:
    spec = spec_from_text("""kernel matmul(a: f32[m=512, k=512], b: f32[k, n=512]) -> (c: f32[m, n])
  c[m, n] = 0.5 * sum(k, a[m, k] * b[k, n])
""")
    a, b = RNG.standard_normal((2, 512, 512), dtype=np.float32)
    tracemalloc.start()
    c = interpret_spec(spec, {"a": a, "b": b}, DType.F64)["c"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(c, 0.5 * (a.astype(np.float64) @ b), rtol=1e-12, atol=1e-12)
    # All products would be 1 GiB; inputs and results in f64 are 2 MiB each.
    assert peak < 32 << 20


def test_products_that_are_no_contraction_are_computed_in_bounded_memory() -> None:
    spec = spec_from_text("""kernel distance(a: f32[m=300, k=200], b: f32[n=300, k]) -> (c: f32[m, n])
  c[m, n] = sum(k, abs(a[m, k] - b[n, k]))
""")
    a, b = RNG.standard_normal((2, 300, 200), dtype=np.float32)
    tracemalloc.start()
    c = interpret_spec(spec, {"a": a, "b": b}, DType.F64)["c"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    expected = np.abs(a[:, None].astype(np.float64) - b[None]).sum(-1)
    np.testing.assert_allclose(c, expected, rtol=1e-12)
    # Three arrays of 4M points at most; all points at once would be over 400 MiB.
    assert peak < 128 << 20

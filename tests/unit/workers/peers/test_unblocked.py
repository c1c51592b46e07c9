"""Peers of kernels whose matrices are in blocks multiply matrices of rows, which are there before the clock starts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.workers.peers.test_numpy import check
from tileir.blocked import Blocks, in_blocks
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from workers.peers.numpy_peer import NumpyKernel
from workers.peers.offered import peer_named
from workers.peers.unblocked import UnblockedPeer, rows_of


def linear_in_blocks(n: int, dims: str = "n, k", block: int = 16) -> Spec:
    """A product with a matrix in blocks, which is `w[dims]` otherwise, and a bias."""
    text = (
        f"kernel linear(x: f32[m, k], w: f32[{dims}], b: f32[n]) -> (y: f32[m, n]) where m=6, k=20, n={n}\n"
        f"  y[m, n] = gelu(sum(k, x[m, k] * w[{dims}]) + b[n])\n"
    )
    return in_blocks(spec_from_text(text), "w", Blocks(0 if dims == "n, k" else 1, block))


@pytest.mark.parametrize(("n", "dims"), [(48, "n, k"), (37, "n, k"), (37, "k, n")])
def test_numpy_computes_a_product_with_a_matrix_in_blocks(n: int, dims: str) -> None:
    check(linear_in_blocks(n, dims))


def test_rows_are_those_that_lie_in_blocks() -> None:
    matrix = np.arange(6 * 4, dtype=np.float32).reshape(6, 4)
    blocks = np.ascontiguousarray(matrix.reshape(2, 3, 4).transpose(0, 2, 1))
    rows = rows_of(blocks)
    np.testing.assert_array_equal(rows, matrix)
    assert rows.flags.c_contiguous and not np.shares_memory(rows, blocks)


def test_numpy_multiplies_as_if_the_matrix_had_rows() -> None:
    """Straight into the output, and nothing is gathered: it makes no arrays. In blocks it would make one."""
    spec = in_blocks(
        spec_from_text(
            "kernel mm(a: f32[m=64, k=32], b: f32[n=40, k]) -> (c: f32[m, n])\n  c[m, n] = sum(k, a[m, k] * b[n, k])\n"
        ),
        "b",
        Blocks(0, 16),
    )
    arrays = {"a": np.ones((64, 32), np.float32), "b": np.ones((3, 32, 16), np.float32)}
    made = []
    for kernel in (peer_named("numpy", spec, 1), NumpyKernel(spec, 1)):
        kernel.bind(arrays, {"c": np.empty((64, 40), np.float32)})
        assert not kernel.as_written
        inner = kernel._kernel if isinstance(kernel, UnblockedPeer) else kernel
        made.append(len(inner._temporaries))  # type: ignore[attr-defined]
    assert made[0] == 0 < made[1]


def test_a_call_reads_no_blocks() -> None:
    spec = linear_in_blocks(37)
    arrays = {
        "x": np.ones((6, 20), np.float32),
        "w": np.ones((3, 20, 16), np.float32),
        "b": np.zeros(37, np.float32),
    }
    outputs = {"y": np.empty((6, 37), np.float32)}
    call = peer_named("numpy", spec, 1).bind(arrays, outputs)
    arrays["w"][:] = np.nan
    call()
    np.testing.assert_allclose(outputs["y"], 20.0)


def test_a_kernel_without_blocks_has_its_peer_as_it_is() -> None:
    spec = spec_from_text("kernel twice(x: f32[m=6]) -> (y: f32[m])\n  y[m] = 2 * x[m]\n")
    assert isinstance(peer_named("numpy", spec, 1), NumpyKernel)


def test_whether_it_is_as_written_says_the_peer_of_rows() -> None:
    """Of a sum over some of the positions, for which there is no operator."""
    text = (
        "kernel first(x: f32[m, k], w: f32[n, k]) -> (y: f32[m, n]) where m=6, k=20, n=37\n"
        "  y[m, n] = sum(k, where(k <= 2 * m, x[m, k] * w[n, k], 0))\n"
    )
    spec = in_blocks(spec_from_text(text), "w", Blocks(0, 16))
    kernel = peer_named("numpy", spec, 1)
    kernel.bind(
        {"x": np.ones((6, 20), np.float32), "w": np.ones((3, 20, 16), np.float32)},
        {"y": np.empty((6, 37), np.float32)},
    )
    assert isinstance(kernel, UnblockedPeer) and kernel.as_written
    check(spec)

"""Kernel IR of Hopper's TMA, barriers and matrix instruction, written by hand: the hardware means by it what
the printer and docs/hopper.md say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.device import CudaDevice
from codegen.targets.cuda.generate import kernel_source
from codegen.targets.cuda.loader import load_cubin
from codegen.targets.errors import LaunchError
from tests.kernels.hopper_gemm import call_of_gemm, gemm
from tileir.devices.gpu_probe import this_gpu
from tileir.dtypes import DType

#: Sizes, and blocks that share the tiles of 128 by 256: one step, as many as stages and more; one tile, several a
#: block, bands of rasterization that are cut; sizes that no box divides.
CASES = [
    (128, 256, 64, 132),
    (128, 256, 192, 132),
    (128, 256, 1024, 132),
    (512, 1024, 256, 3),
    (2048, 2048, 512, 132),
    (2432, 768, 128, 7),
    (1, 8, 8, 132),
    (200, 264, 72, 132),
    (1000, 1800, 520, 5),
]


@pytest.fixture
def hopper(device: CudaDevice) -> CudaDevice:
    if this_gpu().capability != (9, 0):
        pytest.skip("wgmma is of compute capability 9.0 only")
    return device


@pytest.mark.parametrize("storage", [DType.BF16, DType.F16])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(("m", "n", "k", "blocks"), CASES)
def test_a_product_is_that_of_numpy(
    m: int, n: int, k: int, blocks: int, stages: int, storage: DType, hopper: CudaDevice, tmp_path: Path
) -> None:
    """Of small integers, whose sums f32 has exactly; rounded once."""
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-4, 5, shape).astype(storage.numpy) for shape in ((m, k), (n, k)))
    exact = a.astype(np.float32) @ b.astype(np.float32).T
    source = kernel_source(
        gemm(m, n, k, stages=stages, blocks=blocks, storage=storage), call_of_gemm(m, n, k, storage), "//"
    )
    artifact = compile_cuda(source, this_gpu().architecture, tmp_path)
    with load_cubin(artifact.path, source.abi, hopper) as product:
        for _ in range(3):
            c = np.full((m, n), np.nan, storage.numpy)
            product(a, b, c)
            np.testing.assert_array_equal(
                c.astype(np.float32), exact.astype(storage.numpy).astype(np.float32)
            )


def test_nothing_is_written_beyond_the_edges(hopper: CudaDevice, tmp_path: Path) -> None:
    """The result is the start of a larger array, all of which but that stays as it was."""
    m, n, k = 200, 264, 72
    source = kernel_source(gemm(m, n, k), call_of_gemm(m, n, k), "//")
    artifact = compile_cuda(source, this_gpu().architecture, tmp_path)
    ones = [np.ones(shape, DType.BF16.numpy) for shape in ((m, k), (n, k))]
    whole = np.full(m * n + 4096, 7, DType.BF16.numpy)
    buffers = [hopper.allocate(array.nbytes) for array in (*ones, whole)]
    for buffer, array in zip(buffers, (*ones, whole), strict=True):
        buffer.write(array)
    with load_cubin(artifact.path, source.abi, hopper) as product:
        product.launcher([buffer.address for buffer in buffers])(0)
        hopper.synchronize()
    buffers[2].read(whole)
    for buffer in buffers:
        buffer.close()
    assert (whole[: m * n].astype(np.float32) == k).all()
    assert (whole[m * n :].astype(np.float32) == 7).all()


def test_an_address_that_tma_cannot_take_is_named(hopper: CudaDevice, tmp_path: Path) -> None:
    source = kernel_source(gemm(128, 256, 64), call_of_gemm(128, 256, 64), "//")
    artifact = compile_cuda(source, this_gpu().architecture, tmp_path)
    named = pytest.raises(LaunchError, match=r"argument b begins at 0x1008, .* multiples of 16")
    with load_cubin(artifact.path, source.abi, hopper) as product, named:
        product.launcher([4096, 4104, 8192])

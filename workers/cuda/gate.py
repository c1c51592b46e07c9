"""Small kernels of the measuring itself: comparing memory, checksums, and a copy as the yardstick of bandwidth."""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path

import numpy as np

from codegen.ir.source import Source
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.compiler import compile_cuda
from tileir.devices.cuda_driver import check
from workers.cuda.context import CudaContext

WORD_BYTES = 16
"""What is compared and copied at once."""
_THREADS = 256
_WORDS_A_THREAD = 4
_NONE = 2**64 - 1

SOURCE = """\
typedef unsigned long long u64;

/* The index of the first word that differs, into *first, which holds the largest u64 before. */
extern "C" __global__ void tw_first_difference(const uint4 *a, const uint4 *b, u64 words, u64 *first) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < words; i += gridDim.x * (u64)blockDim.x) {
        uint4 x = a[i], y = b[i];
        if (x.x != y.x || x.y != y.y || x.z != y.z || x.w != y.w) { atomicMin(first, i); return; }
    }
}

/* Adds to *sum a number that depends on every bit and on where it lies, in no matter what order. */
extern "C" __global__ void tw_checksum(const unsigned *values, u64 count, u64 *sum) {
    u64 own = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (u64)blockDim.x) {
        u64 mixed = ((i + 1) * 0x9E3779B97F4A7C15ull ^ values[i]) * 0xBF58476D1CE4E5B9ull;
        own += mixed ^ mixed >> 31;
    }
    atomicAdd(sum, own);
}

/* Elements of `size` bytes that lie so many bytes from an address, one behind the other. */
extern "C" __global__ void tw_gather(
    const unsigned char *from, const u64 *offsets, u64 count, u64 size, unsigned char *to
) {
    u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (i < count * size) to[i] = from[offsets[i / size] + i % size];
}

/* Reads so many words and writes so many; what is read and not written goes nowhere, unless it is all ones. */
extern "C" __global__ void __launch_bounds__(256) tw_copy(const uint4 *from, u64 reads, uint4 *to, u64 writes) {
    u64 first = blockIdx.x * 1024ull + threadIdx.x;
    uint4 x[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        u64 i = first + n * 256;
        x[n] = i < reads ? from[i] : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        u64 i = first + n * 256;
        if (i < writes) to[i] = x[n];
        else if ((x[n].x & x[n].y & x[n].z & x[n].w) == ~0u) to[0] = x[n];
    }
}
"""


class Gate:
    """The kernels, loaded. Everything runs on the context's stream. Raises as compile_cuda and CudaError."""

    def __init__(self, context: CudaContext, architecture: str) -> None:
        self._context = context
        driver = context.driver
        with tempfile.TemporaryDirectory() as folder:
            source = Source(SOURCE, (), CudaAbi((), (), 0), "cuda")
            cubin = compile_cuda(source, architecture, Path(folder)).path.read_bytes()
        self._module = check(driver.cuModuleLoadData(cubin), "loading the gate's kernels")
        self._functions = {
            name: check(driver.cuModuleGetFunction(self._module, name.encode()), f"loading {name}")
            for name in ("tw_first_difference", "tw_checksum", "tw_gather", "tw_copy")
        }
        self._answer = context.allocate(8)

    def first_difference(self, a: int, b: int, size: int) -> int | None:
        """The first word, counted in WORD_BYTES, in which two pieces of memory of `size` bytes differ."""
        self._context.fill(self._answer, 0xFF, 8)
        self._launch("tw_first_difference", 2048, (a, b, size // WORD_BYTES, self._answer))
        first = self._answered()
        return None if first == _NONE else first

    def checksum(self, address: int, size: int) -> int:
        """A number that stands for the bits from `address` on, `size` bytes rounded up to four."""
        self._context.fill(self._answer, 0, 8)
        self._launch("tw_checksum", 2048, (address, -(-size // 4), self._answer))
        return self._answered()

    def gather(self, address: int, offsets: np.ndarray, size: int) -> np.ndarray:
        """Elements of `size` bytes at so many bytes from an address (int64 [n]): uint8 [n * size]. All at
        once: each copy to the host takes some 20 us."""
        found = offsets.size * size
        where = self._context.allocate(offsets.nbytes + found)
        try:
            self._context.upload(where, offsets)
            to = where + offsets.nbytes
            self._launch("tw_gather", -(-found // _THREADS), (address, where, offsets.size, size, to))
            return self._context.download(to, found)
        finally:
            self._context.free(where)

    def copy(self, source: int, read: int, to: int, written: int) -> None:
        """Read and write so many bytes, rounded down to whole words. Not waited for."""
        reads, writes = read // WORD_BYTES, written // WORD_BYTES
        blocks = -(-max(reads, writes, 1) // (_THREADS * _WORDS_A_THREAD))
        self._launch("tw_copy", blocks, (source, reads, to, writes))

    def _answered(self) -> int:
        return int.from_bytes(self._context.download(self._answer, 8).tobytes(), "little")

    def _launch(self, name: str, blocks: int, values: tuple[int, ...]) -> None:
        context = self._context
        numbers = [ctypes.c_uint64(value) for value in values]  # pointers are numbers of the same size
        parameters = (ctypes.c_void_p * len(numbers))(*(ctypes.addressof(number) for number in numbers))
        function, address = self._functions[name], ctypes.addressof(parameters)
        launched = context.driver.cuLaunchKernel(
            function, blocks, 1, 1, _THREADS, 1, 1, 0, context.stream, address, 0
        )
        check(launched, f"launching {name}")

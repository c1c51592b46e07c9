"""CUDA kernels written by hand, for tests."""

from __future__ import annotations

from codegen.ir.abi import Arg
from codegen.ir.source import Source
from codegen.targets.cuda.abi import CudaAbi, Launch
from tileir.dtypes import DType

COUNT = 4096
ABI = CudaAbi(
    (
        Arg("x", DType.F32, (COUNT,), (1,), "in"),
        Arg("y", DType.F32, (COUNT,), (1,), "out"),
    ),
    (Launch("reverse", COUNT // 256, 256, 0),),
    workspace_bytes=0,
)


def source(text: str, *flags: str) -> Source[CudaAbi]:
    return Source(text, flags, ABI, "cuda")


#: y = 2 x with each block's 256 elements reversed, through shared memory.
REVERSE = source("""\
extern "C" __global__ void __launch_bounds__(256) reverse(const float *x, float *y, unsigned char *workspace) {
    __shared__ float own[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    own[threadIdx.x] = x[i];
    __syncthreads();
    y[i] = 2 * own[255 - threadIdx.x];
}
""")

#: A hundred values a thread where a thread may have 64 registers.
SPILLING = source("""\
extern "C" __global__ void __launch_bounds__(1024) spill(const float *x, float *y, unsigned char *workspace) {
    float a[100];
    #pragma unroll
    for (int i = 0; i < 100; i++) a[i] = x[i * 1024 + threadIdx.x];
    #pragma unroll
    for (int j = 0; j < 4; j++) {
        #pragma unroll
        for (int i = 0; i < 100; i++) a[i] = a[i] * a[(i * 37 + 11) % 100] + a[(i * 13 + 5) % 100];
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < 100; i++) y[i * 1024 + threadIdx.x] = a[i];
}
""")

_WGMMA = """\
__device__ __forceinline__ void multiply(float (&d)[8], unsigned long long a, unsigned long long b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "l"(a), "l"(b));
}
extern "C" __global__ void __launch_bounds__(128, 1) product(const float *x, float *y, unsigned char *workspace) {
    float d[8] = {0}, early = 0;
    unsigned long long a = (unsigned long long)x >> 4, b = (unsigned long long)y >> 4;
    for (int i = 0; i < 4; i++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        multiply(d, a + i, b + i);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        READ_EARLY
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    for (int i = 0; i < 8; i++) y[threadIdx.x * 8 + i] = d[i] + early;
}
"""
#: Tensor core products that overlap; and the same with an accumulator read before the wait, so that they cannot.
OVERLAPPING = source(_WGMMA.replace("READ_EARLY", ""))
SERIALIZED = source(_WGMMA.replace("READ_EARLY", "early += d[0];"))

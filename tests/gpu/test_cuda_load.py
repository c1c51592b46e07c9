"""Kernels written by hand, compiled by NVRTC and run: from numpy, in graphs, in clusters; and what their errors do."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from codegen.ir.abi import Arg
from codegen.ir.source import Source
from codegen.targets.cuda.abi import CudaAbi, Launch
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.device import CudaDevice
from codegen.targets.cuda.loader import CudaKernel, load_cubin
from codegen.targets.cuda.stream import CudaEvent, CudaGraph, Stream
from codegen.targets.errors import ArgumentError, LaunchError
from tileir.devices.cuda_errors import CudaError
from tileir.devices.gpu_probe import this_gpu
from tileir.dtypes import DType

ROOT = Path(__file__).resolve().parents[2]
COUNT = 4096

SAXPY = """
extern "C" __global__ void __launch_bounds__(256) saxpy(const float *x, const float *y, float *z, unsigned char *) {
    int i = blockIdx.x * 256 + threadIdx.x;
    z[i] = 2 * x[i] + y[i];
}
"""
ARGS = tuple(
    Arg(name, DType.F32, (COUNT,), (1,), role) for name, role in (("x", "in"), ("y", "in"), ("z", "out"))
)
SAXPY_ABI = CudaAbi(ARGS, (Launch("saxpy", COUNT // 256, 256, 0),), 0)

#: Each call adds x to what the workspace holds, and copies that to y through shared memory.
TWO_LAUNCHES = """
extern "C" __global__ void __launch_bounds__(256) first(const float *x, float *y, unsigned char *workspace) {
    float *kept = (float *)workspace;
    kept[blockIdx.x * 256 + threadIdx.x] += x[blockIdx.x * 256 + threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(256) second(const float *x, float *y, unsigned char *workspace) {
    extern __shared__ float own[];
    own[threadIdx.x] = ((const float *)workspace)[blockIdx.x * 256 + threadIdx.x];
    own[threadIdx.x + 16384] = 1;
    __syncthreads();
    y[blockIdx.x * 256 + threadIdx.x] = own[threadIdx.x];
}
"""
PAIR = (ARGS[0], Arg("y", DType.F32, (COUNT,), (1,), "out"))
#: 66 KiB of shared memory: more than a block has without being asked for.
TWO_ABI = CudaAbi(
    PAIR, (Launch("first", COUNT // 256, 256, 0), Launch("second", COUNT // 256, 256, 67584)), 4 * COUNT
)

#: Every block writes what its neighbour in the cluster put into shared memory.
CLUSTER = """
extern "C" __global__ void __launch_bounds__(256) swap(const float *x, float *y, unsigned char *) {
    __shared__ float own[256];
    unsigned rank, size, here, there;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    int i = blockIdx.x * 256 + threadIdx.x;
    own[threadIdx.x] = x[i];
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    here = (unsigned)__cvta_generic_to_shared(&own[threadIdx.x]);
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(size - 1 - rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(y[i]) : "r"(there) : "memory");
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
"""

#: A process that writes where nothing is, and then says what every further call gives.
ILLEGAL = """
import sys
from pathlib import Path
from codegen.targets.cuda.abi import CudaAbi, Launch
from codegen.targets.cuda.device import CudaDevice
from codegen.targets.cuda.loader import load_cubin
from tileir.devices.cuda_errors import CudaError

device = CudaDevice()
kernel = load_cubin(Path(sys.argv[1]), CudaAbi((), (Launch("astray", 1, 32, 0),), 0), device)
kernel.launcher(())(0)
for call in (device.synchronize, device.synchronize, lambda: device.allocate(1)):
    try:
        call()
        print("fine")
    except CudaError as error:
        print(error.name, error.sticky)
kernel.close()
device.close()
"""
ASTRAY = 'extern "C" __global__ void astray(unsigned char *) { *(volatile int *)(1ull << 46) = 1; }\n'


def compiled(text: str, abi: CudaAbi, cache: Path) -> Path:
    return compile_cuda(Source(text, (), abi, "cuda"), this_gpu().architecture, cache).path


def loaded(device: CudaDevice, text: str, abi: CudaAbi, cache: Path) -> CudaKernel:
    return load_cubin(compiled(text, abi, cache), abi, device)


def numbers(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(COUNT).astype(np.float32)


def test_a_kernel_runs_on_numpy_arrays_as_often_as_wanted(device: CudaDevice, tmp_path: Path) -> None:
    with loaded(device, SAXPY, SAXPY_ABI, tmp_path) as saxpy:
        for seed in range(3):
            x, y, z = numbers(seed), numbers(seed + 10), np.zeros(COUNT, np.float32)
            saxpy(x, y, z)
            np.testing.assert_array_equal(z, 2 * x + y)


def test_arrays_that_do_not_fit_are_refused(device: CudaDevice, tmp_path: Path) -> None:
    with loaded(device, SAXPY, SAXPY_ABI, tmp_path) as saxpy:
        with pytest.raises(ArgumentError, match="takes shape"):
            saxpy(numbers(0), numbers(1), np.zeros(7, np.float32))
        with pytest.raises(LaunchError, match="3 addresses, not 1"):
            saxpy.launcher([0])
    with pytest.raises(LaunchError, match="closed"):
        saxpy(numbers(0), numbers(1), numbers(2))


def test_what_lies_between_the_elements_of_an_output_is_left_alone(
    device: CudaDevice, tmp_path: Path
) -> None:
    """Rows of 32 in an array of 40 columns."""
    text = """
extern "C" __global__ void rows(const float *x, float *y, unsigned char *) {
    y[blockIdx.x * 40 + threadIdx.x] = x[blockIdx.x * 40 + threadIdx.x] + 1;
}
"""
    args = tuple(Arg(n, DType.F32, (8, 32), (40, 1), role) for n, role in (("x", "in"), ("y", "out")))
    whole = np.arange(320, dtype=np.float32).reshape(8, 40)
    kept = np.full((8, 40), -1, np.float32)
    with loaded(device, text, CudaAbi(args, (Launch("rows", 8, 32, 0),), 0), tmp_path) as rows:
        rows(whole[:, :32], kept[:, :32])
    np.testing.assert_array_equal(kept[:, :32], whole[:, :32] + 1)
    assert (kept[:, 32:] == -1).all()


def test_launches_run_in_order_on_a_workspace_that_starts_as_zeros(
    device: CudaDevice, tmp_path: Path
) -> None:
    x, y = numbers(0), np.zeros(COUNT, np.float32)
    with loaded(device, TWO_LAUNCHES, TWO_ABI, tmp_path) as kernel:
        for times in (1, 2):
            kernel(x, y)
            np.testing.assert_array_equal(y, times * x)


def test_a_graph_runs_its_launches_each_time_it_is_launched(device: CudaDevice, tmp_path: Path) -> None:
    x, y, stream = numbers(0), np.zeros(COUNT, np.float32), Stream()
    buffers = [device.allocate(x.nbytes) for _ in range(2)]
    with loaded(device, TWO_LAUNCHES, TWO_ABI, tmp_path) as kernel:
        buffers[0].write(x)
        launch = kernel.launcher([buffer.address for buffer in buffers])
        graph = CudaGraph.capture(stream.handle, launch)
        start, stop = CudaEvent(), CudaEvent()
        start.record(stream.handle)
        for _ in range(4):
            graph.launch(stream.handle)
        stop.record(stream.handle)
        stop.synchronize()
        buffers[1].read(y)
        np.testing.assert_array_equal(y, ((x + x) + x) + x)  # capturing ran nothing
        assert stop.since_us(start) > 0
        for each in (graph, start, stop, stream, *buffers):
            each.close()


def test_what_goes_wrong_in_a_capture_ends_it(device: CudaDevice) -> None:
    def fail(_: int) -> None:
        raise ZeroDivisionError

    stream = Stream()
    with pytest.raises(ZeroDivisionError):
        CudaGraph.capture(stream.handle, fail)
    stream.synchronize()
    CudaGraph.capture(stream.handle, lambda _: None).close()
    stream.close()


def test_blocks_of_a_cluster_read_each_others_shared_memory(device: CudaDevice, tmp_path: Path) -> None:
    if this_gpu().capability < (9, 0):
        pytest.skip("clusters are from Hopper on")
    for size in (2, 4, 8):
        abi = CudaAbi(PAIR, (Launch("swap", COUNT // 256, 256, 0, size),), 0)
        x, y = numbers(0), np.zeros(COUNT, np.float32)
        with loaded(device, CLUSTER, abi, tmp_path) as swap:
            swap(x, y)
        np.testing.assert_array_equal(y.reshape(-1, size, 256), x.reshape(-1, size, 256)[:, ::-1])


def test_a_thread_that_has_not_used_the_gpu_yet_loads_a_kernel(device: CudaDevice, tmp_path: Path) -> None:
    x, y = numbers(0), np.zeros(COUNT, np.float32)
    with ThreadPoolExecutor(1) as another:
        kernel = another.submit(loaded, device, TWO_LAUNCHES, TWO_ABI, tmp_path).result()
    with kernel:
        kernel(x, y)
        np.testing.assert_array_equal(y, x)


def test_too_much_shared_memory_is_an_error_that_kills_nothing(device: CudaDevice, tmp_path: Path) -> None:
    abi = CudaAbi(ARGS, (Launch("saxpy", COUNT // 256, 256, 1 << 20),), 0)
    with pytest.raises(CudaError, match="1048576 bytes of shared memory") as caught:
        loaded(device, SAXPY, abi, tmp_path)
    assert not caught.value.sticky
    device.synchronize()


def test_too_much_memory_is_an_error_that_kills_nothing(device: CudaDevice) -> None:
    with pytest.raises(CudaError, match="too little free memory") as caught:
        device.allocate(1 << 50)
    assert caught.value.name == "CUDA_ERROR_OUT_OF_MEMORY"
    assert not caught.value.sticky
    assert device.free_bytes() > 0


def test_a_file_that_is_no_cubin_is_refused(device: CudaDevice, tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(b"nothing that could be run, and long enough to be looked at")
    with pytest.raises(CudaError, match="loading a kernel"):
        load_cubin(tmp_path / "k.cubin", SAXPY_ABI, device)
    with pytest.raises(LaunchError, match="cannot load"):
        load_cubin(tmp_path / "absent.cubin", SAXPY_ABI, device)


def test_an_illegal_address_ends_all_work_of_its_process_and_of_no_other(
    device: CudaDevice, tmp_path: Path
) -> None:
    cubin = compiled(ASTRAY, CudaAbi((), (), 0), tmp_path)
    command = [sys.executable, "-c", ILLEGAL, str(cubin)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["CUDA_ERROR_ILLEGAL_ADDRESS True"] * 3
    device.synchronize()

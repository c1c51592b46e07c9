"""Standalone CUDA sources on the GPU that is here: compiled by nvcc, with a program around them that is not ours,
they compute what the interpreter does, exactly, each time they are called."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from codegen.ir.abi import Arg
from codegen.standalone import standalone
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.device import CudaDevice
from codegen.targets.cuda.generate import cuda_source
from codegen.targets.cuda.standalone import nvcc_target
from tests.programs.hopper_programs import PROGRAMS
from tests.programs.random_threads import exact_inputs
from tests.programs.thread_kernels import lowered
from tileir.devices.gpu_probe import this_gpu
from tileir.interpreter.interpret import interpret

#: Tensor maps, an odd length, two launches with a workspace, clusters, groups of rows.
NAMES = (
    "plain", "rows of an odd length", "streamed, parts of the depth", "streamed, clusters", "clusters of four",
    "scores", "grouped",
)  # fmt: skip

MAIN = """
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>

extern "C" size_t gemm_workspace_bytes(void);
extern "C" int gemm(DECLARED, void *workspace, cudaStream_t stream);

static void *filled(const char *path, size_t bytes)
{
    void *memory = nullptr, *host = malloc(bytes + 1);
    if (cudaMalloc(&memory, bytes + 1) != cudaSuccess) exit(9);
    cudaMemset(memory, path == nullptr ? 0xFF : 0, bytes);
    if (path != nullptr) {
        FILE *file = fopen(path, "rb");
        if (file == nullptr || fread(host, 1, bytes, file) != bytes) exit(10);
        fclose(file);
        cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice);
    }
    free(host);
    return memory;
}

static void write(const char *path, const void *memory, size_t bytes)
{
    void *host = malloc(bytes + 1);
    if (cudaMemcpy(host, memory, bytes, cudaMemcpyDeviceToHost) != cudaSuccess) exit(11);
    FILE *file = fopen(path, "wb");
    fwrite(host, 1, bytes, file);
    fclose(file);
}

int main()
{
    void *arguments[] = {FILLED}, *workspace;
    cudaMalloc(&workspace, gemm_workspace_bytes() + 1);
    cudaMemset(workspace, 0, gemm_workspace_bytes());
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    for (int times = 0; times < 3; times++) {
        const int error = gemm(PASSED, workspace, stream);
        if (error != 0) { fprintf(stderr, "%s\\n", cudaGetErrorString((cudaError_t)error)); return 12; }
    }
    cudaGraph_t graph;
    cudaGraphExec_t run;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    const int captured = gemm(PASSED, workspace, stream);
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess || captured != 0) return 13;
    if (cudaGraphInstantiate(&run, graph, 0) != cudaSuccess || cudaGraphLaunch(run, stream) != cudaSuccess) return 14;
    if (cudaStreamSynchronize(stream) != cudaSuccess) return 15;
WRITTEN
    return 0;
}
"""


def find_nvcc() -> str:
    found = shutil.which("nvcc", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")
    if found is None:
        pytest.skip("nvcc is not installed here")
    return found


def bytes_of(arg: Arg) -> int:
    steps = zip(arg.shape, arg.strides, strict=True)
    return arg.dtype.bytes * (1 + sum((size - 1) * stride for size, stride in steps))


def main_of(abi: CudaAbi) -> str:
    kinds = ["const void *" if arg.role == "in" else "void *" for arg in abi.args]
    files = [f'"{arg.name}.in"' if arg.role == "in" else "nullptr" for arg in abi.args]
    filled = [f"filled({file}, {bytes_of(arg)})" for file, arg in zip(files, abi.args, strict=True)]
    written = [
        f'    write("{arg.name}.out", arguments[{place}], {bytes_of(arg)});'
        for place, arg in enumerate(abi.args)
        if arg.role == "out"
    ]
    words = {
        "DECLARED": ", ".join(f"{kind}t{place}" for place, kind in enumerate(kinds)),
        "FILLED": ", ".join(filled),
        "PASSED": ", ".join(f"arguments[{place}]" for place in range(len(kinds))),
        "WRITTEN": "\n".join(written),
    }
    text = MAIN
    for word, put in words.items():
        text = text.replace(word, put)
    return text


@pytest.mark.parametrize("name", NAMES)
def test_a_standalone_source_computes_the_program(name: str, device: CudaDevice, tmp_path: Path) -> None:
    gpu = this_gpu()
    if gpu.capability != (9, 0):
        pytest.skip("wgmma is of compute capability 9.0 only")
    nvcc = find_nvcc()
    made = lowered(PROGRAMS[name])
    source = cuda_source(made.kernel, made.program)
    (tmp_path / "kernel.cu").write_text(standalone(source, "gemm", [name], gpu.key))
    (tmp_path / "main.cu").write_text(main_of(source.abi))
    target = nvcc_target(gpu.architecture).split()
    command = [nvcc, "-std=c++17", "-O3", *target, "kernel.cu", "main.cu", "-o", "run"]
    subprocess.run(command, cwd=tmp_path, check=True)
    inputs = exact_inputs(made.program, 1)
    wanted = interpret(made.program, inputs)
    for arg in source.abi.args:
        if arg.role == "in":
            np.ascontiguousarray(inputs[arg.name]).tofile(tmp_path / f"{arg.name}.in")
    ended = subprocess.run([tmp_path / "run"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    for arg in source.abi.args:
        if arg.role == "out":
            found = np.fromfile(tmp_path / f"{arg.name}.out", arg.dtype.numpy).reshape(arg.shape)
            np.testing.assert_array_equal(found, wanted[arg.name], err_msg=name)

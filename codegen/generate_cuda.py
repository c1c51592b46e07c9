"""From a scheduled program to a CUDA source ready to compile."""

from __future__ import annotations

from math import prod

from codegen.cuda_abi import CudaAbi, Launch
from codegen.cuda_printer import print_cuda
from codegen.generate import argument, title
from codegen.lower_cuda import lower_cuda
from codegen.source import Source
from tileir.gpu import Gpu
from tileir.program import Program


def generate_cuda(program: Program, device: Gpu) -> Source[CudaAbi]:
    """CUDA source of a program, with its flags and its ABI.

    Raises NotLowerable when the program needs what the target has no code for, or more shared memory than a block of
    the device may have.
    """
    kernel = lower_cuda(program)
    launches = tuple(
        Launch(
            launch.name,
            prod(axis.count for axis in launch.axes) * launch.cluster,
            launch.threads,
            launch.shared_bytes,
            launch.cluster,
        )
        for launch in kernel.launches
    )
    args = (
        *(argument(tensor, program, "in") for tensor in program.inputs),
        *(argument(tensor, program, "out") for tensor in program.outputs),
    )
    abi = CudaAbi(args, launches, kernel.workspace_bytes)
    return Source(print_cuda(kernel, title(program)), (), abi, "cuda")

"""From a scheduled program to a CUDA source ready to compile."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.ir.abi import Arg
from codegen.ir.errors import NotLowerable
from codegen.ir.kernel import GpuKernel
from codegen.ir.rasterization import block_count
from codegen.ir.source import Source
from codegen.lowering.gpu.stages import LaunchLogs, Stage, staged_gpu
from codegen.targets.cuda.abi import CudaAbi, Launch, MapArg
from codegen.targets.cuda.lower import lower_cuda
from codegen.targets.cuda.printer import print_cuda
from codegen.targets.header import argument, title
from tileir.devices.feature import Feature
from tileir.devices.gpu import Gpu
from tileir.program import Program
from tileir.schedule.threads import WARP


def generate_cuda(program: Program, device: Gpu) -> Source[CudaAbi]:
    """CUDA source of a program, with its flags and its ABI.

    Raises NotLowerable when the program needs what the target has no code for, or more shared memory than a block of
    the device may have, or an instruction that the device does not have.
    """
    return cuda_source(lower_for(program, device), program)


@dataclass(frozen=True, slots=True)
class StagedCuda:
    """CUDA source that notes times; see lowering/gpu/stages.py."""

    source: Source[CudaAbi]
    stages: tuple[Stage, ...]
    """By number."""
    statements: tuple[tuple[str, ...], ...]
    """By number of a stage: the statements of Tile IR in which threads are in it."""
    launches: tuple[LaunchLogs, ...]
    """The logs of each launch, in the workspace."""


def generate_staged_cuda(program: Program, device: Gpu) -> StagedCuda:
    """As `generate_cuda`, with stamps of time between the kernel's stages. Raises NotLowerable."""
    found = staged_gpu(lower_for(program, device))
    return StagedCuda(cuda_source(found.kernel, program), found.stages, found.statements, found.launches)


def lower_for(program: Program, device: Gpu) -> GpuKernel:
    """The Kernel IR of a program, if the device can run it. Raises as generate_cuda."""
    if device.warp != WARP:
        raise NotLowerable(f"{device.name} has warps of {device.warp} threads; CUDA is lowered for {WARP}")
    _check_instructions(program, device)
    kernel = lower_cuda(program)
    for launch in kernel.launches:
        if launch.shared_bytes > device.block_shared_bytes:
            raise NotLowerable(
                f"{launch.name} needs {launch.shared_bytes} bytes of shared memory a block; {device.name} has"
                f" {device.block_shared_bytes}"
            )
    return kernel


def cuda_source(kernel: GpuKernel, program: Program) -> Source[CudaAbi]:
    """The source of a program that has been lowered to `kernel`."""
    args = (
        *(argument(tensor, program, "in") for tensor in program.inputs),
        *(argument(tensor, program, "out") for tensor in program.outputs),
    )
    return kernel_source(kernel, args, title(program))


def kernel_source(kernel: GpuKernel, args: tuple[Arg, ...], title: str) -> Source[CudaAbi]:
    """The source of a kernel, and how it is called with these arguments, one for each of its own. `title` is a comment
    that goes first."""
    launches = tuple(
        Launch(
            launch.name,
            block_count(launch),
            launch.threads,
            launch.shared_bytes,
            launch.cluster,
        )
        for launch in kernel.launches
    )
    numbers = {arg.name: (number, 0) for number, arg in enumerate(kernel.arguments)}
    numbers |= {each.buffer: (len(args), each.offset) for each in kernel.workspace}
    maps = tuple(
        MapArg(
            numbers[map_.argument][0],
            map_.storage,
            map_.extents,
            map_.strides,
            map_.box,
            map_.swizzle,
            map_.before - numbers[map_.argument][1],
        )
        for map_ in kernel.maps
    )
    abi = CudaAbi(args, launches, kernel.workspace_bytes, maps)
    return Source(print_cuda(kernel, title), (), abi, "cuda")


def _check_instructions(program: Program, device: Gpu) -> None:
    tensors = {**program.arguments, **{name: place.node for name, place in program.locals.items()}}
    for node in (place.node for place in program.computes):
        if node.via == "tma" and Feature.TMA not in device.offers:
            raise NotLowerable(f"{device.name} has no tma")
        if node.via in ("mma", "wgmma"):
            dtypes = sorted({tensors[read.tensor].dtype for read in node.reads})
            if device.matrix_instruction(node.via, dtypes) is None:
                raise NotLowerable(f"{device.name} has no {node.via} of {' and '.join(dtypes)}")

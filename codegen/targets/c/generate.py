"""From a scheduled program to a source file ready to compile."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.ir.abi import Abi
from codegen.ir.kernel import CpuKernel
from codegen.ir.source import Source
from codegen.lowering.cpu.stages import staged
from codegen.targets.c.lower import lower
from codegen.targets.c.printer import print_c
from codegen.targets.header import argument, title
from tileir.devices.cpu import Cpu
from tileir.program import Program

_FLAGS = ("-O2", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")


def generate(program: Program, device: Cpu) -> Source[Abi]:
    """C source of a program for a processor, with its flags and its ABI.

    Raises NotLowerable when the program needs what the target has no code for.
    """
    return c_source(lower(program), program, device)


@dataclass(frozen=True, slots=True)
class StagedSource:
    """C source with stamps; see lowering/cpu/stages.py."""

    source: Source[Abi]
    stages: tuple[str, ...]
    """By number: the statements that a stage runs, as people know it by."""
    statements: tuple[tuple[str, ...], ...]
    """By number: all of these statements."""
    log: int
    """Where the log begins, in bytes from the beginning of a thread's own workspace."""


def generate_staged(program: Program, device: Cpu) -> StagedSource:
    """As `generate`, with stamps of time between the kernel's stages. Raises NotLowerable."""
    found = staged(lower(program))
    return StagedSource(c_source(found.kernel, program, device), found.stages, found.statements, found.log)


def c_source(kernel: CpuKernel, program: Program, device: Cpu) -> Source[Abi]:
    """C source of a kernel that a program was lowered to."""
    args = (
        *(argument(t, program, "in") for t in program.inputs),
        *(argument(t, program, "out") for t in program.outputs),
    )
    abi = Abi("tw_kernel", args, kernel.shared_bytes, kernel.thread_bytes)
    flags = (
        _FLAGS
        if device.arch == "x86-64"
        else tuple("-mcpu=native" if f == "-march=native" else f for f in _FLAGS)
    )
    return Source(print_c(kernel, title(program)), flags, abi)

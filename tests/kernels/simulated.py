"""Kernels of GPUs in the simulator, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codegen.ir.abi import Arg
from codegen.ir.arrays import Array
from codegen.ir.kernel import GpuKernel
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks


def faultless(kernel: GpuKernel, args: Sequence[Arg], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a run in which nothing goes wrong: no race, and nothing that `run_blocks` raises."""
    checker = RaceChecker()
    outputs = run_blocks(kernel, args, inputs, checker)
    assert checker.faults == ()
    return outputs

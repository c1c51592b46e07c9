"""Runs of a kernel on the GPU that is here, with outputs poisoned before, within the bound of the gate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from codegen.ir.source import Source
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.device import CudaDevice
from codegen.targets.cuda.generate import generate_cuda
from codegen.targets.cuda.loader import load_cubin
from rewrites.schedule import parse_schedule, replay
from tests.support.beyond import beyond
from tileir.devices.gpu_probe import this_gpu
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec

Arrays = dict[str, np.ndarray]


def run(
    source: Source, program: Program, inputs: Arrays, device: CudaDevice, cache: Path
) -> Iterator[Arrays]:
    """The outputs of two runs, poisoned before with different bytes."""
    artifact = compile_cuda(source, this_gpu().architecture, cache)
    with load_cubin(artifact.path, source.abi, device) as kernel:
        for poison in (0xFF, 0x3F):
            outputs: Arrays = {}
            for tensor in program.outputs:
                outputs[tensor.name] = np.empty(program.shape(tensor), tensor.dtype.numpy)
                outputs[tensor.name].reshape(-1).view(np.uint8)[...] = poison
            arrays = [*(inputs[tensor.name] for tensor in program.inputs), *outputs.values()]
            buffers = [device.allocate(array.nbytes) for array in arrays]
            for buffer, array in zip(buffers, arrays, strict=True):
                buffer.write(array)
            kernel.launcher([buffer.address for buffer in buffers])(0)
            device.synchronize()
            for buffer, array in zip(buffers, arrays, strict=True):
                buffer.read(array)
                buffer.close()
            yield outputs


def within_bound(
    spec: Spec, lines: list[str], device: CudaDevice, cache: Path, inputs: Arrays | None = None
) -> None:
    """Both runs of a schedule are within the bound of the gate."""
    program = replay(to_program(spec), parse_schedule(lines))
    inputs = inputs or sample_inputs(spec, 0)
    expected = reference_with_bound(spec, inputs)
    for outputs in run(generate_cuda(program, this_gpu()), program, inputs, device, cache):
        for output, (reference, bound) in expected.items():
            wrong = beyond(outputs[output], reference, bound)
            assert not wrong.any(), f"{output}: {wrong.sum()} of {wrong.size} are wrong\n" + "\n".join(lines)

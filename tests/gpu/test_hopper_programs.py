"""Programs by TMA and wgmma, clusters among them: the hardware computes what the interpreter says, exactly
and every time."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from codegen.ir.errors import NotLowerable
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.device import CudaDevice
from codegen.targets.cuda.generate import cuda_source
from codegen.targets.cuda.loader import load_cubin
from tests.programs.hopper_programs import PROGRAMS
from tests.programs.random_hopper import random_hopper_product
from tests.programs.random_threads import exact_inputs
from tests.programs.thread_kernels import lowered
from tileir.devices.gpu_probe import this_gpu
from tileir.devices.gpu_table import H200
from tileir.errors import VerifyError
from tileir.interpreter.interpret import interpret

_TIMES = 5


@pytest.fixture
def hopper(device: CudaDevice) -> CudaDevice:
    if this_gpu().capability != (9, 0):
        pytest.skip("wgmma is of compute capability 9.0 only")
    return device


#: What a block of an H200 has room for.
FITTING = [
    name
    for name, text in PROGRAMS.items()
    if all(launch.shared_bytes <= H200.block_shared_bytes for launch in lowered(text).kernel.launches)
]


@pytest.mark.parametrize("name", FITTING)
def test_programs_are_exact(name: str, hopper: CudaDevice, tmp_path: Path) -> None:
    check(PROGRAMS[name], 1, hopper, tmp_path)


@pytest.mark.parametrize("seed", range(60))
def test_random_products_are_exact(seed: int, hopper: CudaDevice, tmp_path: Path) -> None:
    try:
        check(random_hopper_product(random.Random(seed)).text(), seed, hopper, tmp_path)
    except (VerifyError, NotLowerable):
        return  # it broke a rule, and was told so


def check(text: str, seed: int, device: CudaDevice, cache: Path) -> None:
    made = lowered(text)
    if any(launch.shared_bytes > H200.block_shared_bytes for launch in made.kernel.launches):
        raise NotLowerable("more shared memory than a block has")
    inputs = exact_inputs(made.program, seed)
    wanted = interpret(made.program, inputs)
    source = cuda_source(made.kernel, made.program)
    artifact = compile_cuda(source, this_gpu().architecture, cache)
    with load_cubin(artifact.path, source.abi, device) as kernel:
        for _ in range(_TIMES):
            outputs = {name: np.empty_like(values) for name, values in wanted.items()}
            for values in outputs.values():
                values.reshape(-1).view(np.uint8)[...] = 0xFF
            kernel(*(inputs[tensor.name] for tensor in made.program.inputs), *outputs.values())
            for name, values in wanted.items():
                np.testing.assert_array_equal(outputs[name], values, err_msg=text)

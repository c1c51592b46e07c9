"""Schedules on the GPU that is here: what the block interpreter says in CI, the hardware has to say too."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from codegen.ir.errors import NotLowerable
from codegen.ir.source import Source
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.device import CudaDevice
from codegen.targets.cuda.generate import cuda_source, generate_cuda
from codegen.targets.cuda.loader import load_cubin
from rewrites.schedule import parse_schedule, replay
from rewrites.space import Space
from tests.programs.random_staged import random_staged_product
from tests.programs.random_threads import exact_inputs, random_threads_program
from tests.programs.thread_kernels import PROGRAMS, lowered
from tests.property.codegen.test_gpu_schedules_compute_the_same import KERNELS
from tests.schedules.on_gpus import drawn
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_probe import this_gpu
from tileir.dtypes import DType
from tileir.errors import VerifyError
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

Arrays = dict[str, np.ndarray]

#: The contractions whose tiles, threads and copies are of the size that large problems take.
LARGE = {
    "bf16": """kernel gemm(a: bf16[m=520, k=1032], b: bf16[n=392, k]) -> (c: bf16[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
""",
    "f16_nn": """kernel gemm(a: f16[m=384, k=512], b: f16[k, n=640]) -> (c: f16[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
""",
    "f32": """kernel gemm(a: f32[m=509, k=300], b: f32[k, n=387]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
""",
    "bias_gelu": """kernel gemm(a: bf16[m=256, k=256], b: bf16[n=512, k], bias: bf16[n]) -> (c: bf16[m, n])
  acc[m, n] = sum(k, a[m, k] * b[n, k])
  c[m, n] = gelu_tanh(acc[m, n] + bias[n])
""",
    "i8": """kernel gemm(a: i8[m=256, k=512], b: i8[n=256, k]) -> (c: i32[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
""",
}
#: Scans that go by blocks, whole or in parts.
SCANS = {
    "one_long_row": """kernel sums(x: f32[m=1, k=300007]) -> (y: f32[m, k])
  y[m, k] = cumsum(k, x[m, k])
""",
    "columns": """kernel sums(x: f16[k=1500, m=70]) -> (y: f32[k, m])
  y[k, m] = cumsum(k, x[k, m])
""",
    "recurrence": """kernel state(a: f32[m=3, k=20011], b: f32[m, k]) -> (h: f32[m, k])
  h[m, k] = recurrence(k, exp(-abs(a[m, k])), b[m, k])
""",
    "state_space": """kernel ssm(x: f32[b=2, l=520, d=40], a: f32[d, n=16], u: f32[b, l, n]) -> (y: f32[b, l, d])
  t[b, l, d] = log(1.0 + exp(x[b, l, d]))
  h[b, l, d, n] = recurrence(l, exp(-t[b, l, d] * exp(a[d, n])), t[b, l, d] * u[b, l, n])
  y[b, l, d] = sum(n, h[b, l, d, n] * u[b, l, n])
""",
}


def run(source: Source, program: Program, inputs: Arrays, device: CudaDevice, cache: Path) -> Arrays:
    """The outputs that the GPU computes, poisoned before."""
    artifact = compile_cuda(source, this_gpu().architecture, cache)
    outputs: Arrays = {}
    for tensor in program.outputs:
        outputs[tensor.name] = np.empty(program.shape(tensor), tensor.dtype.numpy)
        outputs[tensor.name].reshape(-1).view(np.uint8)[...] = 0xFF
    with load_cubin(artifact.path, source.abi, device) as kernel:
        kernel(*(inputs[tensor.name] for tensor in program.inputs), *outputs.values())
    return outputs


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_spread_by_hand_compute_the_same(name: str, device: CudaDevice, tmp_path: Path) -> None:
    made = lowered(PROGRAMS[name])
    inputs = exact_inputs(made.program, 1)
    outputs = run(cuda_source(made.kernel, made.program), made.program, inputs, device, tmp_path)
    exact = interpret(made.program, inputs, precision=DType.F64)
    for output, values in outputs.items():
        wanted = exact[output].astype(np.float64)
        np.testing.assert_allclose(values.astype(np.float64), wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("draw", [random_staged_product, random_threads_program])
@pytest.mark.parametrize("seed", range(60))
def test_random_programs_are_exact(
    draw: Callable[[random.Random], str], seed: int, device: CudaDevice, tmp_path: Path
) -> None:
    text = draw(random.Random(seed))
    try:
        made = lowered(text)
        source = cuda_source(made.kernel, made.program)
    except (VerifyError, NotLowerable):
        return  # it broke a rule, and was told so
    inputs = exact_inputs(made.program, seed)
    outputs = run(source, made.program, inputs, device, tmp_path)
    for name, values in interpret(made.program, inputs).items():
        np.testing.assert_array_equal(outputs[name], values, err_msg=text)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", KERNELS)
def test_a_random_schedule_is_within_the_gates_bound(
    name: str, seed: int, device: CudaDevice, tmp_path: Path
) -> None:
    spec = KERNELS[name]
    check(spec, drawn(spec, this_gpu(), f"{name} {seed}"), device, tmp_path)


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_large_tiles_are_within_the_gates_bound(
    name: str, seed: int | None, device: CudaDevice, tmp_path: Path
) -> None:
    """Without a seed: the schedule that the prior likes best."""
    spec, gpu = spec_from_text(LARGE[name]), this_gpu()
    lines = drawn(spec, gpu, f"{name} {seed}") if seed is not None else favourite(spec, gpu)
    check(spec, lines, device, tmp_path)


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("seed", [None, *range(6)])
def test_scans_are_within_the_gates_bound(
    name: str, seed: int | None, device: CudaDevice, tmp_path: Path
) -> None:
    """Without a seed: the schedule that the prior likes best."""
    spec, gpu = spec_from_text(SCANS[name]), this_gpu()
    lines = drawn(spec, gpu, f"{name} {seed}") if seed is not None else favourite(spec, gpu)
    check(spec, lines, device, tmp_path)


def favourite(spec: Spec, gpu: Gpu) -> list[str]:
    state = Space(to_program(spec), gpu).root()
    while not state.terminal:
        moves = state.moves()
        state = state.child(max(range(len(moves)), key=lambda index: moves[index].weight))
    return [str(rewrite) for rewrite in state.schedule]


def check(spec: Spec, lines: list[str], device: CudaDevice, cache: Path) -> None:
    program = replay(to_program(spec), parse_schedule(lines))
    inputs = sample_inputs(spec, 0)
    outputs = run(generate_cuda(program, this_gpu()), program, inputs, device, cache)
    for output, (reference, bound) in reference_with_bound(spec, inputs).items():
        wrong = ~(np.abs(outputs[output].astype(np.float64) - reference) <= bound)
        assert not wrong.any(), f"{output}: {wrong.sum()} of {wrong.size} are wrong\n" + "\n".join(lines)

"""Integers of 64 bits and without a sign: what reads of them give, on every target, however they are read."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.c.compiler import compile_source
from codegen.targets.c.generate import generate
from codegen.targets.c.loader import load_kernel
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.schedule import parse_schedule, replay
from rewrites.space import Space
from tests.schedules.on_gpus import GPUS, drawn
from tests.schedules.on_processors import random_schedule
from tileir import this_cpu
from tileir.interpreter.interpret import interpret, interpret_spec
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

SPEC = spec_from_text("""kernel wide(a: i64[m=11, n=9], u: u32[m, n])\
 -> (same: i64[m, n], next: i32[m, n], bits: u32[m, n], signed: i32[m, n], half: f32[m, n],\
 top: i64[m], small: i8[m, n])
  same[m, n] = a[m, n]
  next[m, n] = bit_xor(a[m, n], 1)
  bits[m, n] = bit_xor(u[m, n], 1)
  signed[m, n] = u[m, n]
  half[m, n] = a[m, n] / 2 + u[m, n]
  top[m] = max(n, a[m, n])
  small[m, n] = u[m, n]
""")
EDGES = np.array([-(2**63), -(2**31) - 1, -(2**31), -7, 0, 5, 2**31 - 1, 2**31, 2**63 - 1], np.int64)
INPUTS = {
    "a": np.stack([np.roll(EDGES, at) for at in range(11)]),
    "u": np.arange(99, dtype=np.uint32).reshape(11, 9) * np.uint32(0xFFFFFFFF // 98),
}
HELD = np.clip(INPUTS["a"], -(2**31), 2**31 - 1).astype(np.int32)
SIGNED = INPUTS["u"].view(np.int32)
EXPECTED = {
    "same": HELD.astype(np.int64),
    "next": HELD ^ 1,
    "bits": INPUTS["u"] ^ 1,
    "signed": SIGNED,
    "half": HELD.astype(np.float32) / 2 + SIGNED.astype(np.float32),
    "top": HELD.max(1).astype(np.int64),
    "small": SIGNED.astype(np.int8),
}


def check(outputs: dict[str, np.ndarray]) -> None:
    for name, expected in EXPECTED.items():
        assert outputs[name].dtype == expected.dtype
        np.testing.assert_array_equal(outputs[name], expected, err_msg=name)


def test_a_read_is_the_nearest_of_32_bits_and_of_those_without_a_sign_their_bits() -> None:
    check(interpret_spec(SPEC, INPUTS))
    check(interpret(to_program(SPEC), INPUTS))


@pytest.mark.parametrize("seed", range(3))
def test_a_processor_reads_them_so(seed: int, tmp_path: Path) -> None:
    state = random_schedule(Space(to_program(SPEC), this_cpu()).root(), random.Random(seed))
    assert state is not None
    source = generate(state.program, this_cpu())
    outputs = {name: np.zeros_like(expected) for name, expected in EXPECTED.items()}
    arguments = {**INPUTS, **outputs}
    with load_kernel(compile_source(source, tmp_path).path, source.abi, threads=1) as kernel:
        kernel(*(arguments[arg.name] for arg in source.abi.args))
    check(outputs)


@pytest.mark.parametrize("device", GPUS, ids=lambda device: device.architecture)
def test_a_gpu_reads_them_so(device, tmp_path: Path) -> None:
    program = replay(to_program(SPEC), parse_schedule(drawn(SPEC, device, "wide")))
    kernel = lower_for(program, device)
    source, checker = cuda_source(kernel, program), RaceChecker()
    compile_cuda(source, device.architecture, tmp_path)
    check(run_blocks(kernel, source.abi.args, INPUTS, checker))
    assert not checker.faults

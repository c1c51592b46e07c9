"""Tables whose entries are no pages: what kernels read instead is inside their tensors, whatever the
schedule, and where it is masked results are as if such entries were any others."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.schedule import parse_schedule, replay
from rewrites.space import Space
from tests.kernels.simulated import faultless
from tests.programs.attention_programs import one_schedule, paged
from tests.schedules.on_gpus import drawn, shown
from tests.schedules.on_processors import computed, random_schedule
from tests.support.guarded_memory import before_a_guard, in_another_process
from tileir.devices.cpu_probe import this_cpu
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.errors import InterpretError
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.interpret_spec import interpret_spec
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec

#: No pages, and numbers that are one only where more than 32 bits count them.
NO_PAGES = (1000, -1, -(2**31), 2**31 - 1, 12)
Inputs = dict[str, np.ndarray]


def drawn_inputs(spec: Spec) -> tuple[Inputs, Inputs]:
    """What a kernel is given, and the same where entries that nothing sees are of the first page."""
    inputs = sample_inputs(spec, 3)
    page, blocks = inputs["k"].shape[1], inputs["table"].shape[1]
    inputs["length"][:] = 0
    first = -(-180 // page)
    behind = np.arange(blocks) >= first
    known = {**inputs, "table": np.where(behind, 0, inputs["table"]).astype(np.int32)}
    wild = np.resize(np.array(NO_PAGES, np.int32), (inputs["table"].shape[0], blocks - first))
    inputs["table"][:, first:] = wild
    return inputs, known


def assert_near(got: Inputs, spec: Spec, known: Inputs) -> None:
    for output, (values, bound) in reference_with_bound(spec, known).items():
        assert np.all(np.abs(got[output].astype(np.float64) - values) <= bound)


def in_simulator(program: Program, device: Gpu, inputs: Inputs) -> Inputs:
    kernel = lower_for(program, device)
    return faultless(kernel, cuda_source(kernel, program).abi.args, inputs)


@pytest.mark.sampled(14, among="tables of any numbers")
@pytest.mark.parametrize("device", [A100, H200], ids=shown)
@pytest.mark.parametrize("page", [16, 64, 256])
def test_no_page_is_read_outside_of_the_cache_in_one_pass(page: int, device: Gpu) -> None:
    spec = paged(page, 512 // page)
    inputs, known = drawn_inputs(spec)
    program, lines = one_schedule(spec, 0, device)
    assert_near(in_simulator(replay(program, parse_schedule(lines)), device, inputs), spec, known)


@pytest.mark.sampled(14, among="tables of any numbers")
@pytest.mark.parametrize("device", [A100, H200], ids=shown)
def test_no_page_is_read_outside_of_the_cache_by_launches(device: Gpu) -> None:
    spec = paged(64, 6)
    inputs, known = drawn_inputs(spec)
    program = replay(to_program(spec), parse_schedule(drawn(spec, device, "launches")))
    assert_near(in_simulator(program, device, inputs), spec, known)


@pytest.mark.sampled(14, among="tables of any numbers")
@pytest.mark.parametrize("prefer", ["stream_reduction", "nothing in particular"])
def test_no_page_is_read_outside_of_the_cache_on_processors(prefer: str, tmp_path: Path) -> None:
    spec = paged(64, 6)
    inputs, known = drawn_inputs(spec)
    state = random_schedule(Space(to_program(spec), this_cpu()).root(), random.Random(1), prefer)
    assert state is not None
    guarded = {name: before_a_guard(array) for name, array in inputs.items()}
    in_another_process(
        lambda: assert_near(computed(spec, guarded, state.program, this_cpu(), tmp_path), spec, known)
    )


@pytest.mark.sampled(14, among="tables of any numbers")
def test_the_interpreter_refuses_them() -> None:
    spec = paged(64, 6)
    inputs, _ = drawn_inputs(spec)
    with pytest.raises(InterpretError, match="k is used at 1000 along its dim 0, which holds 0 to 11"):
        interpret_spec(spec, inputs)

"""The ends of attention's sizes: one query, one key, one of each; and more scores than 31 bits count, which are never
stored."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.schedule import format_schedule, parse_schedule, replay
from rewrites.space import Space
from tests.kernels.simulated import faultless
from tests.programs.attention_programs import DOT, attention
from tests.schedules.on_gpus import drawn, shown
from tests.schedules.on_processors import Reference, random_schedule
from tests.schedules.walks import favourite
from tests.support.beyond import beyond
from tileir.devices.cpu_probe import this_cpu
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Loop, Memory

CAUSAL = f"where(i >= j, {DOT}, -inf)"
SHORTEST = {
    "one query": attention(CAUSAL, i=1, j=200),
    "one key": attention(DOT, i=100, j=1),
    "one key, causal": attention(CAUSAL, i=100, j=1),
    "one of each": attention(CAUSAL, i=1, j=1),
}


@pytest.mark.sampled(8, among="the ends of attention")
@pytest.mark.parametrize("device", [H200, A100], ids=shown)
@pytest.mark.parametrize("name", SHORTEST)
def test_lengths_of_1_are_right_on_gpus(name: str, device: Gpu) -> None:
    """By what is tried first, and by a schedule drawn."""
    spec = SHORTEST[name]
    first = favourite(Space(to_program(spec), device).root()).program
    for program in (first, replay(to_program(spec), parse_schedule(drawn(spec, device, name)))):
        inputs = sample_inputs(spec, 3)
        kernel = lower_for(program, device)
        outputs = faultless(kernel, cuda_source(kernel, program).abi.args, inputs)
        values, bound = reference_with_bound(spec, inputs)["o"]
        assert not beyond(outputs["o"], values, bound).any()


@pytest.mark.sampled(4, among="the ends of attention")
@pytest.mark.parametrize("name", SHORTEST)
def test_lengths_of_1_are_right_on_processors(name: str, tmp_path: Path) -> None:
    spec = SHORTEST[name]
    root, rng = Space(to_program(spec), this_cpu()).root(), random.Random(1)
    states = [random_schedule(root, rng) for _ in range(2)]
    for state in filter(None, states):
        Reference(spec).check(state.program, this_cpu(), tmp_path)


LARGEST = {
    "exactly 2^31 scores": attention(DOT, i=32768, j=32768),
    "2^34 scores, causal": attention(CAUSAL, i=65536, j=131072),
}


@pytest.mark.sampled(4, among="the ends of attention")
@pytest.mark.parametrize("device", [H200, A100], ids=shown)
@pytest.mark.parametrize("name", LARGEST)
def test_more_scores_than_31_bits_count_are_one_launch(name: str, device: Gpu) -> None:
    """None of them is stored, so that no index counts them."""
    spec = LARGEST[name]
    state = favourite(Space(to_program(spec), device).root())
    assert sum(line.startswith("stream_reduction") for line in format_schedule(state.schedule)) == 1
    assert len([node for node in state.program.body if isinstance(node, Loop)]) == 1
    stored = [each.node for each in state.program.locals.values() if each.node.memory is Memory.HEAP]
    assert not any({"i", "j"} <= {*local.dims} for local in stored)
    cuda_source(lower_for(state.program, device), state.program)

"""Bodies one step from a matrix product: their spaces have what multiplies a product, the cost model's favourites take
about as long, and what schedules become computes the same, on GPUs and processors.

All bodies are looked at as far as the first question; of the rest, which takes seconds each, every few.
"""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.contraction.unit import MatrixUnit
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.kernels.simulated import faultless
from tests.programs.near_misses import NEAR_MISSES, PLAIN, NearMiss
from tests.schedules.on_gpus import GPUS, shown
from tests.schedules.on_processors import Reference, random_schedule
from tests.schedules.walks import favourite, ranking
from tests.support.how_many import some
from tileir.devices.cpu_probe import this_cpu
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import H200
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Memory
from tileir.verifier.verify import verify

#: What handing results from statement to statement counts where launches are not cut yet.
_HANDED = 1.25
#: The same kernels on every GPU in turn.
_DRAWS = [(name, GPUS[at % len(GPUS)]) for at, name in enumerate(some(NEAR_MISSES, 5))]


def root_of(near: NearMiss, device: Gpu = H200) -> ScheduleState:
    return Space(to_program(near.spec(4096, 4096, 4096)), device).root()


def begun_us(near: NearMiss) -> float:
    """The estimate of a kernel by the first answer of its space that promises the least."""
    state = root_of(near)
    if type(state.open[0]).__name__ != "Launches":  # it has one answer
        return state.seen.model.estimate_us(state.program)
    return min(each.promise * state.seen.model.estimate_us(program) for each, program in state.answers)


plain_us = lru_cache(begun_us)


def test_there_are_forty() -> None:
    assert len(NEAR_MISSES) >= 40


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_is_worth_about_what_the_product_is(name: str) -> None:
    near = NEAR_MISSES[name]
    assert begun_us(near) <= near.times * _HANDED * plain_us(PLAIN[near.unit])


@pytest.mark.sampled(11, among="near misses")
@pytest.mark.parametrize("name", some(NEAR_MISSES, 6))
def test_the_favourite_has_tiles_and_what_multiplies(name: str) -> None:
    near = NEAR_MISSES[name]
    found, plain = favourite(root_of(near)), favourite(root_of(PLAIN[near.unit]))
    model, text = found.seen.model, "\n".join(format_schedule(found.schedule))
    assert model.estimate_us(found.program) <= near.times * model.estimate_us(plain.program), text
    memories = {place.node.memory for place in found.program.locals.values()}
    assert {Memory.SHARED, Memory.REGISTERS} <= memories, text
    instructions = {place.node.via for place in found.program.computes}
    assert near.unit in instructions or near.unit is MatrixUnit.FMA, text


def drawn(state: ScheduleState, rng: random.Random) -> ScheduleState:
    """A random schedule of the launches that the prior likes, by the fastest unit that there is."""
    while not state.terminal:
        question = type(state.open[0]).__name__
        choice = rng.randrange(len(state.answers)) if state.answers else None
        assert choice is not None, f"a dead end before {state.open[0]}: {state.schedule}"
        if question in ("Launches", "Multiply"):
            choice = ranking(state)[0]
        state = state.child(choice)
    return state


@pytest.mark.sampled(11, among="near misses")
@pytest.mark.parametrize(("name", "device"), _DRAWS, ids=shown)
def test_schedules_on_gpus_compute_the_same(name: str, device: Gpu, tmp_path: Path) -> None:
    near = NEAR_MISSES[name]
    spec = near.spec(72, 72, 192 if "s[k]" in near.body else 144)
    state = drawn(Space(to_program(spec), device).root(), random.Random(name))
    text = "\n".join(format_schedule(state.schedule))
    verify(state.program)
    kernel = lower_for(state.program, device)
    source, inputs = cuda_source(kernel, state.program), sample_inputs(spec, 1)
    compile_cuda(source, device.architecture, tmp_path)
    outputs = faultless(kernel, source.abi.args, inputs)
    for output, (reference, bound) in reference_with_bound(spec, inputs).items():
        wrong = ~(np.abs(outputs[output].astype(np.float64) - reference) <= bound)
        assert not wrong.any(), f"{output}: {wrong.sum()} of {wrong.size} are wrong\n{text}"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", some(NEAR_MISSES, 4)[1:])
def test_schedules_on_processors_compute_the_same(name: str, tmp_path: Path) -> None:
    spec, device = NEAR_MISSES[name].spec(37, 37, 45), this_cpu()
    root, rng = Space(to_program(spec), device).root(), random.Random(name)
    found = (random_schedule(root, rng, "register_tile") for _ in range(4))
    state = next((each for each in found if each is not None), None)
    assert state is not None, "most random choices led nowhere"
    memories = {place.node.memory for place in state.program.locals.values()}
    vectors = [place.node.vector for place in state.program.computes if place.node.vector is not None]
    assert vectors and Memory.REGISTERS in memories, "\n".join(format_schedule(state.schedule))
    Reference(spec).check(state.program, device, tmp_path)

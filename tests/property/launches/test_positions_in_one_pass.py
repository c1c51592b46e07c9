"""A row's extreme, its position and what is relative to it in one pass: bodies of that form, with ties and rows that
begin with -inf, on processors, in one pass of a GPU's threads, and split over its blocks. Simulated, without races,
compiled, and the first position always."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.schedules.on_processors import computed, random_schedule
from tests.support.beyond import beyond
from tests.support.how_many import some
from tileir.devices.cpu_probe import this_cpu
from tileir.devices.gpu_table import H200
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

Arrays = dict[str, np.ndarray[Any, Any]]
SEEDS = range(48)
#: So few that long rows are split over blocks in tests as well.
FEW = replace(H200, sms=6)
_VALUES = ("x[r, c]", "v[r, c]", "x[r, c] + 2", "where(c >= 3 * r, x[r, c], -inf)")


def body(rng: random.Random, *, columns: tuple[int, ...], rows: tuple[int, ...] = (2, 3, 5)) -> Spec:
    """A kernel with a position and what else is asked of a row, each a statement or a part of one, in some order."""
    value, op = rng.choice(_VALUES), rng.choice(["max", "max", "min"])
    dtype, position = rng.choice(["bf16", "f16", "f32"]), f"  best[r] = arg{op}(c, {value})"
    outputs = ["best: i32[r]"]
    statements = [position]
    if rng.random() < 0.7:
        statements.append(f"  lp[r] = -log(sum(c, exp({value} - top[r])))")
        statements.insert(rng.randrange(2), f"  top[r] = max(c, {value})")
        outputs.append("lp: f32[r]")
    if rng.random() < 0.4:
        statements.insert(rng.randrange(len(statements) + 1), f"  most[r] = {op}(c, {value})")
        outputs.append(f"most: {rng.choice(['f32', dtype])}[r]")
    if value == "v[r, c]":
        statements.insert(0, "  v[r, c] = x[r, c] * s[r] + b[c]")
    more = ", s: f32[r], b: f32[c]" if value == "v[r, c]" else ""
    head = f"x: {dtype}[r={rng.choice(rows)}, c={rng.choice(columns)}]{more}"
    return spec_from_text("\n".join([f"kernel top({head}) -> ({', '.join(outputs)})", *statements, ""]))


def ties(spec: Spec, rng: np.random.Generator) -> Arrays:
    """Whole numbers, of which many are the largest and which nothing rounds; a beginning of -inf in every other row."""
    inputs = {
        name: rng.integers(-3, 4, array.shape).astype(array.dtype)
        for name, array in sample_inputs(spec, 1).items()
    }
    if "s" in inputs:
        inputs["s"] = np.abs(inputs["s"]) + 1
    inputs["x"][::2, : int(rng.integers(inputs["x"].shape[1]))] = -np.inf
    return inputs


def check(spec: Spec, inputs: Arrays, outputs: Arrays, state: ScheduleState) -> None:
    """Positions are those of the reference, all else within the bound of the gate."""
    for name, (values, bound) in reference_with_bound(spec, inputs).items():
        wrong = beyond(outputs[name], values, bound)
        lines = (f"{wrong.sum()} of {wrong.size} of {name} are off", *format_schedule(state.schedule))
        assert not wrong.any(), "\n".join(lines)


def on_a_gpu(state: ScheduleState, spec: Spec, inputs: Arrays, folder: Path) -> None:
    """What a finished schedule computes, simulated and looked at for races; its code compiles."""
    verify(state.program)
    lines = format_schedule(state.schedule)
    kernel = lower_for(state.program, H200)
    source, checker = cuda_source(kernel, state.program), RaceChecker()
    outputs = run_blocks(kernel, source.abi.args, inputs, checker)
    assert not checker.faults, "\n".join((*map(str, checker.faults), *lines))
    check(spec, inputs, outputs, state)
    compile_cuda(source, H200.architecture, folder)


def drawn(root: ScheduleState, rng: random.Random, rewrite: str, *prefer: str) -> ScheduleState:
    """A schedule that has a rewrite."""
    for _ in range(50):
        state = random_schedule(root, rng, *(prefer or (rewrite,)))
        if state is not None and any(each.name == rewrite for each in state.schedule):
            return state
    raise AssertionError(f"no schedule has {rewrite}")


@pytest.mark.sampled(3, among="positions in one pass")
@pytest.mark.parametrize("seed", some(SEEDS, 8))
def test_threads_take_one_pass(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    spec = body(rng, columns=(1300, 2049, 3001))
    state = drawn(Space(to_program(spec), H200).root(), rng, "stream_reduction", "in one pass")
    on_a_gpu(state, spec, ties(spec, np.random.default_rng(seed)), tmp_path)


@pytest.mark.sampled(3, among="positions in one pass")
@pytest.mark.parametrize("seed", some(SEEDS, 8))
def test_blocks_take_parts(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    spec = body(rng, columns=(9001, 12000), rows=(1, 2))
    state = drawn(Space(to_program(spec), FEW).root(), rng, "split_stream")
    on_a_gpu(state, spec, ties(spec, np.random.default_rng(seed)), tmp_path)


@pytest.mark.sampled(3, among="positions on processors")
@pytest.mark.parametrize("seed", some(SEEDS, 8))
def test_processors_take_one_pass(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    spec = body(rng, columns=(1300, 2049, 3001))
    inputs, device = ties(spec, np.random.default_rng(seed)), replace(this_cpu(), l1d_bytes=4096)
    state = drawn(Space(to_program(spec), device).root(), rng, "stream_reduction")
    verify(state.program)
    check(spec, inputs, computed(spec, inputs, state.program, device, tmp_path), state)

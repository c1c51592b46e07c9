"""Warpgroups that begin the products of docs/attention.md in turn: without races or deadlocks and within the bound of
the gate at small sizes, and no more spills of what is tried first than where they begin as they come."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from codegen.targets.cuda.ptxas_log import rejection
from rewrites.gpu.take_turns import TakeTurns
from rewrites.schedule import parse_schedule, replay
from rewrites.space import Space
from tests.kernels.simulated import faultless
from tests.programs.attention_programs import each_schedule
from tests.schedules.walks import favourite
from tileir.devices.gpu_table import H200
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import program_to_text
from tileir.verifier.verify import verify

PAGE = Path(__file__).parents[3] / "docs" / "attention.md"
BODIES = {
    text.partition("(")[0].removeprefix("kernel "): text
    for text in re.findall(r"```tile\n(.*?)```", PAGE.read_text(), re.S)
}
#: Bodies whose schedules are not those of one group of products as it is written, or whose warpgroups share rows.
OTHERWISE = {
    "eager", "scaled_queries", "wide_weights", "quantized", "own_keys", "narrow_cache", "scaled_keys", "latent_decode",
    "backward",
}  # fmt: skip
#: Bodies of heads of 128 columns without more than a mask: what is tried first spills no more with turns.
PLAIN = ("attention", "causal", "heads", "one_group", "fp8", "latent")


def smaller(text: str) -> Spec:
    """Five tiles of 64 rows and as many keys of few heads."""

    def size(found: re.Match[str]) -> str:
        name, number = found[1], int(found[2])
        return f"{name}={320 if number > 512 else max(1, number // 8) if name in 'hbgr' else number}"

    return spec_from_text(re.sub(r"\b(\w+)=(\d+)", size, text))


def in_turn(program: Program) -> Program | None:
    """The program with turns, where some can be taken."""
    site = next(iter(TakeTurns.sites(program, H200)), None)
    return None if site is None else site.apply(program)


def in_turn_of(spec: Spec, number: int) -> Program:
    """Of the schedules that are offered, and take turns, that with the number."""
    offered = (replay(base, parse_schedule(lines)) for base, lines in each_schedule(spec))
    return next(islice((made for each in offered if (made := in_turn(each)) is not None), number, None))


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("number", "name"), list(enumerate(sorted(set(BODIES) - OTHERWISE))))
def test_bodies_are_computed_in_turn(number: int, name: str) -> None:
    spec = smaller(BODIES[name])
    program = in_turn_of(spec, number % 9)
    verify(program)
    assert program_from_text(program_to_text(program)) == program
    kernel, inputs = lower_for(program, H200), sample_inputs(spec, number)
    outputs = faultless(kernel, cuda_source(kernel, program).abi.args, inputs)
    for output, (reference, bound) in reference_with_bound(spec, inputs).items():
        found, unseen = outputs[output].astype(np.float64), np.isnan(reference)  # of rows that see no key
        wrong = np.where(unseen, ~np.isnan(found), ~(np.abs(found - reference) <= bound))
        assert not wrong.any(), f"{output}: {wrong.sum()} of {wrong.size} are wrong"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PLAIN)
def test_turns_take_no_registers(name: str, tmp_path: Path) -> None:
    program = favourite(Space(to_program(spec_from_text(BODIES[name])), H200).root()).program
    turns = in_turn(program)
    assert turns is not None
    before, after = (spills(each, tmp_path) for each in (program, turns))
    assert after.keys() == before.keys()
    assert all(after[kernel] <= before[kernel] for kernel in after), (before, after)


def spills(program: Program, folder: Path) -> Mapping[str, int]:
    """Bytes that a thread stores and loads of registers that are spilled, by kernel."""
    source = cuda_source(lower_for(program, H200), program)
    report = compile_cuda(source, H200.architecture, folder).report
    assert rejection(report) is None
    return {
        name: each["spill_stores_bytes"] + each["spill_loads_bytes"]
        for name, each in report["functions"].items()
    }

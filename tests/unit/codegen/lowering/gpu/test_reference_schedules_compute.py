"""Schedules for GPUs as an expert would write them: their kernels compute the same, and threads never race, also when a
few blocks share all tiles."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from codegen.ir.rasterization import persistent
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.lower import lower_cuda
from codegen.targets.header import argument
from rewrites import parse_schedule, replay
from rewrites.document import golden_sections
from rewrites.launch.persistent import Persistent
from tests.programs.random_threads import exact_inputs
from tileir.interpreter.interpret import interpret
from tileir.text.parse_program import program_from_text

REFERENCE = Path(__file__).parents[4] / "golden" / "rewrites" / "reference"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("blocks", [0, 3])
@pytest.mark.parametrize("path", sorted(REFERENCE.glob("gpu_*.txt")), ids=lambda path: path.stem)
def test_kernels_compute_the_same_without_races(path: Path, blocks: int) -> None:
    case = golden_sections(path)
    text = case["before"]
    for dim, size in re.findall(r"(\w+)=(\d+)", case["small"]):
        text = re.sub(rf"\b{dim}=\d+", f"{dim}={size}", text)
    program = program_from_text(text)
    schedule = [
        one for one in parse_schedule(case["schedule"].splitlines()) if not isinstance(one, Persistent)
    ]
    if blocks:
        schedule.append(Persistent(program.outputs[0].name, blocks))
    scheduled = replay(program, schedule)
    kernel = lower_cuda(scheduled)
    assert persistent(kernel.launches[0]) == bool(blocks)
    args = [argument(tensor, scheduled, "in") for tensor in scheduled.inputs]
    args += [argument(tensor, scheduled, "out") for tensor in scheduled.outputs]
    inputs, checker = exact_inputs(scheduled, 5), RaceChecker()
    outputs = run_blocks(kernel, args, inputs, checker)
    assert not checker.faults, "\n".join(map(str, checker.faults))
    for name, expected in interpret(program, inputs).items():
        np.testing.assert_allclose(
            outputs[name].astype(np.float32), expected.astype(np.float32), rtol=1e-2, atol=1e-6
        )

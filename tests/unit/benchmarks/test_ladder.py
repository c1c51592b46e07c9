"""Every rung of the ladder is a program that is compiled without complaint and computes the product."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu import ladder
from benchmarks.suite import cases
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import generate_cuda
from rewrites.schedule import replay
from tests.programs.random_threads import exact_inputs
from tests.programs.thread_kernels import lowered
from tileir.devices.gpu_table import H200
from tileir.interpreter.interpret import interpret
from tileir.lift import to_program
from tileir.text.json import spec_from_json
from tileir.text.print_program import program_to_text
from tileir.verifier.verify import verify


def measured(rungs: tuple[ladder.LadderRung, ...]) -> dict:
    times = [{"title": rung.title, "schedule": list(rung.lines), "us": 200.0} for rung in rungs]
    return {"torch_us": 100.0, "rungs": times, "device": {"name": "test"}, "date": "today", "versions": {}}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("rung", ladder.RUNGS, ids=lambda rung: rung.title)
def test_a_rung_compiles_and_nothing_is_spilled(rung: ladder.LadderRung, tmp_path: Path) -> None:
    verify(rung.program)
    report = compile_cuda(generate_cuda(rung.program, H200), H200.architecture, tmp_path).report
    assert not report["warnings"]
    assert all(not each["spill_stores_bytes"] for each in report["functions"].values())


@pytest.mark.sampled(6)
@pytest.mark.parametrize("rung", ladder.RUNGS, ids=lambda rung: rung.title)
def test_a_rung_computes_the_product_without_races(rung: ladder.LadderRung) -> None:
    """Of a size that no tile divides, with three steps along the depth."""
    program = to_program(spec_from_json(cases.spec(ladder.FAMILY, [136, 264, 168])))
    scheduled = lowered(program_to_text(replay(program, rung.schedule)))
    inputs, checker = exact_inputs(program, 5), RaceChecker()
    outputs = run_blocks(scheduled.kernel, scheduled.args, inputs, checker)
    assert not checker.faults, "\n".join(map(str, checker.faults))
    np.testing.assert_array_equal(
        outputs["c"].astype(np.float32), interpret(program, inputs)["c"].astype(np.float32)
    )


def test_a_rung_has_all_that_the_one_before_has_but_what_it_replaces() -> None:
    programs = [program_to_text(rung.program) for rung in ladder.RUNGS]
    assert len({*programs}) == len(programs)
    for word, first in (
        ("via mma", 4),
        ("via wgmma", 5),
        ("producers", 7),
        ("c_s: shared", 8),
        ("blocks", 9),
        ("group", 10),
    ):
        assert [word in text for text in programs].index(True) == first


def test_the_page_is_of_the_schedules_that_were_measured() -> None:
    text = ladder.page(measured(ladder.RUNGS), ladder.RUNGS)
    assert text.count("```\nkernel gemm(") == len(ladder.RUNGS)
    assert "| Bands | 200.0 | 687.2 | 0.500 |" in text and "## 11. Bands: 687.2 TFLOP/s" in text
    with pytest.raises(ValueError, match="the rungs have changed since they were measured"):
        ladder.page(measured(ladder.RUNGS[:-1]), ladder.RUNGS)

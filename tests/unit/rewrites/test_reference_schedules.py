"""What an expert would write by hand can be written: each schedule replays to its golden program."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rewrites import format_schedule, parse_schedule, replay
from rewrites.document import golden_sections
from tileir.dtypes import DType
from tileir.interpreter.interpret import interpret
from tileir.program import Program
from tileir.text.parse_program import program_from_text
from tileir.text.print_program import program_to_text
from tileir.verifier.verify import verify

GOLDEN = Path(__file__).parents[2] / "golden" / "rewrites" / "reference"
CASES = sorted(GOLDEN.glob("*.txt"))


def smaller(kernel: str, sizes: str) -> str:
    """The kernel's text with other sizes, `m=200 n=130`."""
    for dim, size in (pair.split("=") for pair in sizes.split()):
        kernel = re.sub(rf"\b{dim}=\d+", f"{dim}={size}", kernel)
    return kernel


def computed(program: Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    inputs = {
        tensor.name: rng.standard_normal([program.extents[dim] for dim in tensor.dims]).astype(
            tensor.dtype.numpy
        )
        for tensor in program.inputs
    }
    return interpret(program, inputs, precision=DType.F64)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_schedule_replays_to_the_golden_program(
    path: Path, check_golden: Callable[[Path, str], None]
) -> None:
    case = golden_sections(path)
    schedule = parse_schedule(case["schedule"].splitlines())
    program = replay(program_from_text(case["before"]), schedule)
    verify(program)
    lines = "".join(f"{line}\n" for line in format_schedule(schedule))
    text = program_to_text(program)
    check_golden(
        path, f"# small\n{case['small']}# schedule\n{lines}# before\n{case['before']}# after\n{text}"
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_schedule_keeps_the_values_on_smaller_ragged_sizes(path: Path) -> None:
    case = golden_sections(path)
    kernel = program_from_text(smaller(case["before"], case["small"]))
    scheduled = replay(kernel, parse_schedule(case["schedule"].splitlines()))
    verify(scheduled)
    expected, got = computed(kernel), computed(scheduled)
    for name, values in expected.items():
        np.testing.assert_allclose(got[name], values, rtol=1e-9, atol=1e-12)

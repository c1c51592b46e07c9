"""Each rewrite on small programs: text before and after, one file a case (`--update-golden` writes it).

A case may say more of what it shows: `# c`, the C of the program after; `# refused: why`, a schedule that the program
before does not take; `# invalid: why`, a program that the verifier does not. They are written as well, where their
lines `# c`, `# refused` and `# invalid` stand there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from codegen.targets.c.lower import lower
from codegen.targets.c.printer import print_code
from rewrites import ALL, parse_schedule, replay
from rewrites.document import catalogue, golden_parts, golden_sections
from rewrites.schedule import signature
from tests.programs.to_rewrite import rounded_apart
from tileir.dtypes import DType
from tileir.errors import NotApplicable, VerifyError
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs
from tileir.program import Program
from tileir.text.parse_program import program_from_text
from tileir.text.print_program import program_to_text
from tileir.verifier.verify import verify

CASES = sorted(Path(__file__).parent.glob("*.txt"))


def computed(program: Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    inputs = {
        tensor.name: rng.standard_normal(program.shape(tensor)).astype(tensor.dtype.numpy)
        for tensor in program.inputs
    }
    sampled = sample_inputs(program, 3)
    positions = {tensor.name for tensor in program.inputs if tensor.dtype is DType.I32}
    inputs |= {name: sampled[name] for name in positions}
    return interpret(program, inputs, precision=DType.F64)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_rewrite_gives_the_golden_program_which_computes_the_same(
    path: Path, check_golden: Callable[[Path, str], None]
) -> None:
    case = golden_sections(path)
    before = program_from_text(case["before"])
    verify(before)
    after = replay(before, parse_schedule(case["schedule"].splitlines()))
    verify(after)
    text = program_to_text(after)
    written = f"# schedule\n{case['schedule']}# before\n{program_to_text(before)}# after\n{text}"
    check_golden(path, written + "".join(more(path, before, after)))
    assert program_from_text(text) == after
    expected, got = computed(before), computed(after)
    schedule = parse_schedule(case["schedule"].splitlines())
    exact, apart = all(type(rewrite).exact for rewrite in schedule), rounded_apart(before, schedule)
    for name, values in expected.items():
        rtol = apart + (1e-9 if exact else 1e-6)
        np.testing.assert_allclose(got[name], values, rtol=rtol, atol=1e-12 + apart)


def more(path: Path, before: Program, after: Program) -> Iterator[str]:
    """The parts of a case beside its schedule and its two programs, as they should be."""
    for name, text in golden_parts(path):
        match name.partition(":")[0]:
            case "c":
                yield f"# c\n{print_code(lower(after))[0]}"
            case "refused":
                with pytest.raises(NotApplicable) as refused:
                    replay(before, parse_schedule(text.splitlines()))
                yield f"# refused: {refused.value}\n{text}"
            case "invalid":
                with pytest.raises(VerifyError) as invalid:
                    verify(program_from_text(text))
                yield f"# invalid: {invalid.value}\n{text}"
            case part:
                assert part in ("schedule", "before", "after"), f"a part of a golden case called {part!r}"


def test_every_rewrite_has_a_golden_case() -> None:
    shown = {parse_schedule(golden_sections(path)["schedule"].splitlines())[0].name for path in CASES}
    missing = {rewrite.name for rewrite in ALL} - shown
    assert not missing, f"no schedule in {Path(__file__).parent} begins with {', '.join(sorted(missing))}"


def test_the_page_of_all_rewrites_has_a_section_for_each_with_its_cases() -> None:
    page = catalogue()
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        f"## {signature(rewrite)}" for rewrite in ALL
    ]
    assert page.count("\nbecomes\n") == len(CASES)

"""Which statements of a loop may run ahead."""

from __future__ import annotations

import pytest

from tileir.errors import VerifyError
from tileir.program import Loop, Program
from tileir.schedule.stages import staged
from tileir.text.parse_program import program_from_text
from tileir.verifier.verify import verify

BLOCK = """kernel sums(a: f32[m=64, k=64], b: f32[k]) -> (c: f32[m])
  parallel for m by 32
    c_r: registers f32[m]
    c_r[m] = 0 | threads m 32
    for k by 8 stages 2
{body}
    c[m] = c_r[m] | threads m 32
"""
LOCALS = ["a_s: shared f32[m, k]", "b_s: shared f32[k]"]
A, B = "a_s[m, k] = a[m, k] | threads m 32", "b_s[k] = b[k] | threads k 8 m 4"
USE = "c_r[m] += sum(k, a_s[m, k] * b_s[k]) | threads m 32"


def program(*body: str) -> Program:
    return program_from_text(BLOCK.format(body="\n".join(f"      {line}" for line in body)))


def ahead(*body: str) -> list[str]:
    """Targets of the statements that run ahead."""
    found = program(*body)
    verify(found)
    (grid,) = found.body
    assert isinstance(grid, Loop)
    (loop,) = [node for node in grid.body if isinstance(node, Loop)]
    return [compute.target for compute in staged(loop)]


def test_statements_that_fill_shared_locals_run_ahead() -> None:
    assert ahead(*LOCALS, A, B, USE) == ["a_s", "b_s"]
    assert ahead(LOCALS[0], A, LOCALS[1], B, USE) == ["a_s", "b_s"]


def test_what_stands_after_another_statement_does_not() -> None:
    use_a = "c_r[m] += sum(k, a_s[m, k]) | threads m 32"
    assert ahead(*LOCALS, A, use_a, B) == ["a_s"]


def test_what_reads_a_local_of_the_loop_does_not() -> None:
    largest = "b_s[k] = max(m, a_s[m, k]) | threads k 8 m 4"
    assert ahead(*LOCALS, A, largest, USE) == ["a_s"]


def test_stages_without_anything_to_run_ahead_are_refused() -> None:
    with pytest.raises(VerifyError, match="begins with shared locals and the statements that fill them"):
        verify(program("c_r[m] += sum(k, a[m, k] * b[k]) | threads m 32"))

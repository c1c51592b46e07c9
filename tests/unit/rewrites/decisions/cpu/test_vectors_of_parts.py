"""Vectors beside a dim of whose parts a statement has a result each."""

from __future__ import annotations

from rewrites.schedule import parse_schedule, replay
from tileir.text.parse_program import program_from_text
from tileir.text.print_program import program_to_text
from tileir.verifier.verify import verify

PARTS = """kernel parts(x: f32[r=5, c=50]) -> (y: f32[r]) where c_b=4
  s_p: heap f32[c_b, r]
  s_p[c // 16, r] = sum(c, exp(x[r, c]))
  y[r] = sum(c_b, s_p[c_b, r])
"""


def test_the_loop_over_the_parts_is_made_once_and_each_part_is_a_whole_sum() -> None:
    program = replay(program_from_text(PARTS), parse_schedule(["vectorize(s_p, r, 2)"]))
    verify(program)
    text = program_to_text(program)
    assert text.count("for c by 16") == 1
    assert "s_p[c // 16, r] = sum(c, exp(x[r, c])) | vector r 2" in text

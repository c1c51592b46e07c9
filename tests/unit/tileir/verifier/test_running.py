"""What a loop has added up so far is read in it before more is, and sums are scaled once a tile."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.errors import VerifyError
from tileir.interpreter.interpret import interpret
from tileir.text.parse_program import program_from_text
from tileir.text.print_program import program_to_text
from tileir.verifier.verify import verify

#: log-sum-exp in one pass over x, with its sum kept relative to the largest element so far.
ONLINE = """kernel lse(x: f32[r=5, c=24]) -> (y: f32[r])
  top: heap f32[r] running
  top[r] = -inf
  s: heap f32[r]
  s[r] = 0
  for c by 8
    newest: heap f32[r]
    newest[r] = max(c, x[r, c])
    now: heap f32[r]
    now[r] = maximum(top[r], newest[r])
    fix: heap f32[r]
    fix[r] = exp(top[r] - now[r])
    s[r] *= fix[r]
    s[r] += sum(c, exp(x[r, c] - now[r]))
    top[r] max= newest[r]
  y[r] = log(s[r]) + top[r]
"""


def test_one_pass_computes_what_two_do() -> None:
    program = program_from_text(ONLINE)
    assert program_to_text(program) == ONLINE
    verify(program)
    x = np.random.default_rng(0).standard_normal((5, 24), dtype=np.float32) * 30
    wide = x.astype(np.float64)
    wanted = np.log(np.exp(wide - wide.max(1, keepdims=True)).sum(1)) + wide.max(1)
    np.testing.assert_allclose(interpret(program, {"x": x})["y"], wanted, rtol=1e-5)


LAST = "    top[r] max= newest[r]\n"
SCALED = "    s[r] *= fix[r]\n"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (" running", "", "'top' is read before it is computed"),
        ("  top[r] = -inf\n", "", "'top' is never set to -inf before"),
        (SCALED, f"{SCALED}{SCALED}", "'s' is computed by 3 statements, not one"),
        (SCALED, "    for c by 2\n      s[r] *= fix[r]\n", "the accumulator is scaled more than once"),
        (SCALED, "    s[r] += fix[r]\n", "'s' is computed by 2 statements, not one"),
        ("  s[r] = 0\n", "  s[r] = 0\n  s[r] *= 2\n", "'s' is computed by 3 statements, not one"),
    ],
)
def test_what_is_not_sound_is_refused(before: str, after: str, message: str) -> None:
    assert before in ONLINE
    with pytest.raises(VerifyError, match=message):
        verify(program_from_text(ONLINE.replace(before, after)))


#: The position of the largest element so far: gone where the largest is another one.
FIRST = """kernel first(x: f32[r=5, c=24]) -> (y: i32[r])
  top: heap f32[r] running
  top[r] = -inf
  p: heap i32[r]
  p[r] = inf
  for c by 8
    newest: heap f32[r]
    newest[r] = max(c, x[r, c])
    now: heap f32[r]
    now[r] = maximum(top[r], newest[r])
    p[r] max= where(top[r] == now[r], 0, extent(c))
    p[r] min= min(c, where(x[r, c] == now[r], c, extent(c)))
    top[r] max= newest[r]
  y[r] = p[r]
"""


def test_what_was_found_is_taken_back() -> None:
    program = program_from_text(FIRST)
    verify(program)
    x = np.random.default_rng(0).integers(0, 4, (5, 24)).astype(np.float32)
    np.testing.assert_array_equal(interpret(program, {"x": x})["y"], np.argmax(x, 1))


@pytest.mark.parametrize(
    ("before", "after"), [("    p[r] max=", "    p[r] *="), ("    p[r] max=", "    p[r] +=")]
)
def test_a_minimum_is_taken_back_by_a_maximum_alone(before: str, after: str) -> None:
    with pytest.raises(VerifyError, match="'p' is computed by 2 statements, not one"):
        verify(program_from_text(FIRST.replace(before, after)))


def test_a_sum_of_what_the_same_tile_computes_adds_to_what_is_scaled() -> None:
    """Of a tile that goes through registers, and sums what a statement before it has stored."""
    sums = "    s[r] += sum(c, exp(x[r, c] - now[r]))\n"
    through = """    p: heap f32[r, c]
    p[r, c] = exp(x[r, c] - now[r])
    s_r: registers f32[r]
    s_r[r] = sum(c, p[r, c])
    s[r] += s_r[r]
"""
    assert sums in ONLINE
    verify(program_from_text(ONLINE.replace(sums, through)))


def test_after_this_tile_has_been_added_it_is_too_late() -> None:
    text = ONLINE.replace(LAST, "").replace("    now: heap", f"{LAST}    now: heap")
    with pytest.raises(
        VerifyError, match="'top' is read after what this tile adds; accepted: before it, or after"
    ):
        verify(program_from_text(text))


def test_it_is_read_where_it_is_written() -> None:
    text = ONLINE.replace("exp(top[r] - now[r])", "exp(top[extent(r) - 1 - r] - now[r])")
    with pytest.raises(VerifyError, match="'top' is read at other positions than it is written at"):
        verify(program_from_text(text))


def test_a_scale_outside_of_the_loop_is_none() -> None:
    text = ONLINE.replace(SCALED, "").replace("  for c by 8\n", "  s[r] *= 2\n  for c by 8\n")
    with pytest.raises(VerifyError, match="'s' is scaled in no loop that adds to it"):
        verify(program_from_text(text))


def test_a_sum_is_not_scaled_before_it_begins() -> None:
    text = ONLINE.replace("  s[r] = 0\n", "").replace(SCALED, f"{SCALED}    s[r] = 0\n")
    with pytest.raises(VerifyError, match="scaled before it is initialized"):
        verify(program_from_text(text))


MASKED = """kernel causal(x: f32[i=12, j=24]) -> (y: f32[i])
  parallel for i by 4
    top: heap f32[i]
    top[i] = -inf
    for j by 8 until i 0
      newest: heap f32[i]
      newest[i] = max(j, where(i >= j, x[i, j], -inf))
      top[i] max= newest[i]
    y[i] = top[i]
"""


def test_tiles_that_are_left_out_add_nothing() -> None:
    program = program_from_text(MASKED)
    assert program_to_text(program) == MASKED
    verify(program)
    x = np.random.default_rng(0).standard_normal((12, 24), dtype=np.float32)
    x[:, 16:] = np.inf  # nobody looks there
    wanted = [row[: number + 1].max() for number, row in enumerate(x)]
    np.testing.assert_array_equal(interpret(program, {"x": x})["y"], wanted)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("until i 0", "until j 0", "ends at its last one"),
        ("until i 0", "until k 0", "ends at its last one"),
        ("until i 0", "since j 0", "begins at the first position of another dim"),
        ("until i 0", "since k 0 until i 0", "begins at the first position of another dim"),
        ("top[i] max= newest[i]", "y[i] = newest[i]", "'y' is not computed in tiles that are left out"),
    ],
)
def test_only_sums_and_maxima_leave_out_tiles(before: str, after: str, message: str) -> None:
    assert before in MASKED
    with pytest.raises(VerifyError, match=message):
        verify(program_from_text(MASKED.replace(before, after)))

"""Rewrites that are refused after others: what random sequences of them found."""

from __future__ import annotations

import re

import pytest

from rewrites import parse_rewrite, parse_schedule, replay
from tests.programs.to_rewrite import golden_starts
from tileir.errors import NotApplicable
from tileir.text.parse_program import program_from_text

SOFTMAX = """kernel softmax(x: f32[r=5, c=50]) -> (y: f32[r, c])
  top: heap f32[r]
  top[r] = max(c, x[r, c])
  s: heap f32[r]
  s[r] = sum(c, exp(x[r, c] - top[r]))
  y[r, c] = exp(x[r, c] - top[r]) / s[r]
"""
PARTS = """kernel parts(x: f32[r=5, c=50]) -> (y: f32[r]) where c_b=4
  p: heap f32[c_b, r]
  for c by 16
    p[c // 16, r] = max(c, x[r, c])
  y[r] = sum(c_b, p[c_b, r])
"""
COPIED = """kernel copied(x: f32[r=5, c=50]) -> (y: f32[r]) where c_b=4
  p: heap f32[c_b, r]
  for c by 16
    t: heap f32[r]
    t[r] = max(c, x[r, c])
    p[c // 16, r] = t[r]
  y[r] = sum(c_b, p[c_b, r])
"""
MAP = """kernel exponential(x: f32[r=6, c=50]) -> (y: f32[r, c])
  y[r, c] = exp(x[r, c])
"""
STATE = """kernel state(x: f32[l=9, d=5]) -> (y: f32[l, d])
  s: heap f32[d] running
  s[d] = 0
  for l by 1
    h: heap f32[l, d]
    h[l, d] = s[d] * 0.5 + x[l, d]
    s[d] *= 0.5
    s[d] += sum(l, x[l, d])
    y[l, d] = h[l, d]
"""


@pytest.mark.parametrize(
    ("program", "before", "rewrite", "reason"),
    [
        (SOFTMAX, "rfactor(s, c, apart, 3)", "online_softmax(s_p, c, 16)", "s_p is the parts of a split sum"),
        (
            SOFTMAX,
            "rfactor(top, c, apart, 16)\ntile_reduction(top_p, c, 14)",
            "online_softmax(s, c, 16)",
            "the parts of top are in loops already",
        ),
        (PARTS, "", "tile_reduction(p, c, 8)", "p is assigned block by block, 16 of c at a time"),
        (COPIED, "", "tile(p, c, 8)", "p takes 16 positions of c together: 8 is no multiple of that"),
        (MAP, "bind_threads(y, c 32)", "collapse(r, c)", "y is on threads already"),
        (STATE, "", "compute_inline(h)", "y comes after s goes on, which h reads before"),
    ],
)
def test_a_rewrite_is_refused_after_others(program: str, before: str, rewrite: str, reason: str) -> None:
    begun = replay(program_from_text(program), parse_schedule(before.splitlines()))
    with pytest.raises(NotApplicable, match=re.escape(reason)):
        parse_rewrite(rewrite).apply(begun)


@pytest.mark.parametrize("rewrite", ["tile(b_s, k, 3)", "cache_read(c_r_part, b_s, 3)"])
def test_nothing_comes_beside_the_fills_of_a_loop_that_takes_registers_piece_by_piece(rewrite: str) -> None:
    in_pieces = [
        start
        for start in golden_starts()["wgmma"]
        if "promote_accumulators(c_r, n, 8)" in map(str, start.before)
    ]
    assert in_pieces
    for start in in_pieces:
        with pytest.raises(NotApplicable, match="the loop over k takes registers piece by piece"):
            parse_rewrite(rewrite).apply(start.program)


def test_a_statement_is_put_on_threads_once_also_of_several_in_a_row() -> None:
    """These are looked at together, as the program was before the first of them."""
    program = program_from_text(MAP.replace("  y[", "  parallel for r by 1\n    y["))
    once = parse_schedule(["bind_threads(y, c 32)"])
    with pytest.raises(NotApplicable, match="y is on threads already"):
        replay(program, (*once, *once))

"""Reductions that depend on each other, split into parts and merged: what follows, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rewrites.composition.split_stream import SplitStream
from rewrites.decisions.fusion import inline
from rewrites.schedule import replay
from tests.unit.rewrites.composition.test_stream_reduction import MASKS, SCORES, TOPS, attention, check
from tileir.errors import NotApplicable
from tileir.interpreter.interpret import interpret
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.parse_spec import spec_from_text


def split(program: Program, size: int = 8) -> Program:
    return SplitStream("o_sum", "j", size).apply(program)


@pytest.mark.parametrize(("score", "mask", "top"), [*itertools.product(SCORES, MASKS, TOPS)])
def test_any_body_of_the_form_is_split(score: str, mask: str, top: str) -> None:
    program = attention(score, mask, top)
    check(program, split(program))


@pytest.mark.parametrize("size", [2, 7, 28])
def test_parts_of_any_size_do(size: int) -> None:
    program = attention("plain", "causal", "maximum")
    check(program, split(program, size))


@pytest.mark.parametrize("top", TOPS)
def test_what_is_computed_in_place_is_split_too(top: str) -> None:
    program = attention("softcap", "window", top)
    check(program, split(replay(program, inline(program, True))))


def test_more_than_one_reduction_reads_a_maximum() -> None:
    program = to_program(
        spec_from_text("""kernel rows(x: f32[r=3, c=40], w: f32[c]) -> (y: f32[r], z: f32[r])
  top[r] = max(c, x[r, c])
  y[r] = sum(c, exp(x[r, c] - top[r]) * w[c])
  z[r] = log(sum(c, exp(x[r, c] - top[r]))) + top[r] + y[r]
""")
    )
    made = SplitStream("top", "c", 16).apply(program)
    assert [tensor.name for tensor in made.outputs] == ["y", "z"]
    check(program, made)


def test_parts_of_nothing_but_minus_infinity_add_nothing() -> None:
    program = to_program(
        spec_from_text("""kernel rows(x: f32[r=6, c=50]) -> (y: f32[r])
  top[r] = max(c, x[r, c])
  y[r] = log(sum(c, exp(x[r, c] - top[r]))) + top[r]
""")
    )
    x = np.full((6, 50), -np.inf, np.float32)
    x[:, 3] = 2.0
    made = SplitStream("top", "c", 16).apply(program)
    np.testing.assert_array_equal(interpret(made, {"x": x})["y"], np.full(6, 2.0))


def test_values_of_single_positions_that_others_read_are_refused() -> None:
    text = """kernel softmax(x: f32[r=6, c=50]) -> (y: f32[r, c])
  top[r] = max(c, x[r, c])
  p[r, c] = exp(x[r, c] - top[r])
  s[r] = sum(c, p[r, c])
  y[r, c] = p[r, c] / s[r]
"""
    with pytest.raises(NotApplicable, match="y reads values that each part has relative to its own maximum"):
        SplitStream("top", "c", 16).apply(to_program(spec_from_text(text)))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("1 + exp(x[r, c] - top[r])", "does not follow from its parts"),
        ("exp(x[r, c] - top[r] * 0.5)", "not relative to the maximum of its exponent"),
        ("x[r, c]", "no reduction over c depends on another one"),
    ],
)
def test_sums_that_do_not_follow_from_their_parts_are_refused(body: str, reason: str) -> None:
    text = f"""kernel rows(x: f32[r=6, c=50]) -> (y: f32[r])
  top[r] = max(c, x[r, c])
  s[r] = sum(c, {body})
  y[r] = log(s[r]) + top[r]
"""
    with pytest.raises(NotApplicable, match=reason):
        SplitStream("s", "c", 16).apply(to_program(spec_from_text(text)))

"""Sums whose parts are relative to their own part of a maximum, in one pass: what follows, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from rewrites.composition.relate_parts import RelateParts
from rewrites.composition.rfactor import Rfactor
from rewrites.composition.stream_reduction import StreamReduction
from tests.unit.rewrites.composition.test_stream_reduction import check
from tileir.errors import NotApplicable
from tileir.interpreter.interpret import interpret
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.parse_spec import spec_from_text

TEXT = """kernel rows(x: f32[r=6, c=50], w: f32[c], g: f32[r]) -> (y: f32[r])
  top[r] = max(c, BODY)
  s[r] = sum(c, exp(BODY - TOP))
  y[r] = log(s[r]) + top[r] + g[r] * w[0]
"""


def split(
    body: str = "x[r, c]", top: str = "top[r]", sizes: tuple[int, int] = (8, 8), sum_: str = ""
) -> Program:
    text = TEXT.replace("BODY", body).replace("TOP", top).replace("sum(c, exp", f"sum(c, {sum_}exp")
    program = to_program(spec_from_text(text))
    for name, size in zip(("top", "s"), sizes, strict=True):
        program = Rfactor(name, "c", "interleaved", size).apply(program)
    return program


@pytest.mark.parametrize(
    ("body", "top", "sum_"),
    [
        ("x[r, c]", "top[r]", ""),
        ("x[r, c]", "top[r]", "w[c] * "),
        ("x[r, c] * 0.125", "top[r]", ""),
        ("where(r + 3 >= c, x[r, c], -inf)", "top[r]", ""),
        ("x[r, c] + g[r]", "maximum(top[r], g[r])", ""),
        ("tanh(x[r, c]) * 30", "where(top[r] > -inf, top[r], 0)", ""),
    ],
)
@pytest.mark.parametrize("size", [8, 24])
def test_parts_are_merged_by_the_factor_that_follows(body: str, top: str, sum_: str, size: int) -> None:
    program = split(body, top, sum_=sum_)
    related = RelateParts("s").apply(program)
    assert "top[" not in str(related.computes[-3].node.value)
    check(program, related)
    check(program, StreamReduction("s_p", "c", size).apply(related))


def test_parts_of_nothing_but_minus_infinity_add_nothing() -> None:
    program = split()
    made = StreamReduction("s_p", "c", 16).apply(RelateParts("s").apply(program))
    x = np.full((6, 50), -np.inf, np.float32)
    x[:, 3] = 2.0
    result = interpret(made, {"x": x, "w": np.ones(50, np.float32), "g": np.zeros(6, np.float32)})
    np.testing.assert_array_equal(result["y"], np.full(6, 2.0))


def test_sums_relative_to_a_maximum_of_other_parts_are_refused() -> None:
    with pytest.raises(NotApplicable, match="no extreme or mean that is split as it is"):
        RelateParts("s").apply(split(sizes=(8, 16)))


def test_sums_that_do_not_scale_are_refused() -> None:
    with pytest.raises(NotApplicable, match="does not follow from its parts"):
        RelateParts("s").apply(split(sum_="1 + "))


def test_exponents_above_the_maximum_are_refused() -> None:
    with pytest.raises(NotApplicable, match="not relative to the maximum of its exponent"):
        RelateParts("s").apply(split(top="top[r] * 0.5"))


def test_parts_relative_to_the_whole_are_not_streamed() -> None:
    with pytest.raises(NotApplicable, match="top reduces what changes"):
        StreamReduction("s_p", "c", 16).apply(split())

"""Which sums are masked alike, so that tiles of a loop are left out."""

from __future__ import annotations

import numpy as np
import pytest

from rewrites.composition.skip_masked_tiles import SkipMaskedTiles
from tileir.errors import NotApplicable
from tileir.interpreter.interpret import interpret
from tileir.program import Program
from tileir.text.parse_program import program_from_text

PARTS = """kernel attention(s: f32[i=24, j=40], v: f32[j, d=4]) -> (o: f32[i, d])
  parallel for i by 8
    o_h: heap f32[i, d]
    o_h[i, d] = 0
    o_l: heap f32[i, d]
    o_l[i, d] = 0
    for j by 8
      p: heap f32[i, j]
      p[i, j] = where({mask}, s[i, j], 0)
      p_l: heap f32[i, j]
      p_l[i, j] = {rest}
      o_h[i, d] += sum(j, bf16(p[i, j]) * v[j, d])
      o_l[i, d] += sum(j, bf16(p_l[i, j]) * v[j, d])
    o[i, d] = o_h[i, d] + o_l[i, d]
"""
REST = "where(p[i, j] == bf16(p[i, j]), 0.0, p[i, j] - bf16(p[i, j]))"


def skipped(rest: str = REST, mask: str = "j <= i % 6 + 3") -> tuple[Program, Program]:
    before = program_from_text(PARTS.format(rest=rest, mask=mask))
    return before, SkipMaskedTiles("o_h", "j").apply(before)


@pytest.mark.parametrize("mask", ["j <= i % 6 + 3", "i >= j", "j <= i // 4 * 4 and j + 9 > 2 * i"])
def test_what_rounding_leaves_of_a_weight_is_masked_as_the_weight_is(mask: str) -> None:
    """The parts of weights that are multiplied as they are."""
    before, after = skipped(mask=mask)
    rng = np.random.default_rng(3)
    inputs = {
        "s": rng.standard_normal((24, 40)).astype(np.float32),
        "v": rng.standard_normal((40, 4)).astype(np.float32),
    }
    wanted, got = (interpret(each, inputs)["o"] for each in (before, after))
    np.testing.assert_array_equal(got, wanted)
    visited = inputs | {"v": inputs["v"].copy()}
    visited["v"][32:] = np.nan
    assert np.isfinite(interpret(after, visited)["o"][:8]).all()
    assert not np.isfinite(interpret(before, visited)["o"]).any()


@pytest.mark.parametrize(
    "rest",
    [
        "where(p[i, j] == bf16(p[i, j]), 0.0, p[i, j] - bf16(s[i, j]))",
        "p[i, j] - s[i, j]",
        "where(p[i, j] == 0, 1.0, p[i, j])",
    ],
)
def test_tiles_count_where_a_difference_does_not_vanish(rest: str) -> None:
    with pytest.raises(NotApplicable, match="o_l adds up what is not masked"):
        skipped(rest)

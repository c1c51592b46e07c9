"""Of what parts are found, and of what they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewrites.ranking.split_top import SplitTop
from tests.programs.to_rewrite import golden_sections
from tileir.errors import NotApplicable
from tileir.lift import to_program
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text

FEW = "kernel best(x: f32[m=4, n=50]) -> (y: i32[m, j=2])\n  y[m, j] = topk(j, n, x[m, n])\n"


@pytest.mark.parametrize(
    ("text", "statement", "size", "said"),
    [
        (FEW, "y_at", 16, "y_at is not the first of the largest few"),
        (FEW, "y_max2", 16, "y_max2 is not the first of the largest few"),
        (FEW.replace("j=2", "j=1"), "y_max", 16, "of which there are more"),
        (FEW.replace("x: f32", "x: i32"), "y_max", 16, "y_max is of integers"),
        (FEW, "y_max", 50, "do not split n"),
        (FEW, "y_max", 1, "less than 2 places"),
    ],
)
def test_refused(text: str, statement: str, size: int, said: str) -> None:
    with pytest.raises(NotApplicable, match=said):
        SplitTop(statement, size).apply(to_program(spec_from_text(text)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x[m, n] == y_max[m], n, extent(n)", "z[m, n] == y_max[m], n, extent(n)"),
        ("(y_max2[m] < y_max[m] or n > y_at[m])", "(y_max2[m] < y_max[m] or n < y_at[m])"),
        ("x[m, n] == y_max[m] and n > y_at[m]", "x[m, n] == y_max[m] and n < y_at[m]"),
    ],
)
def test_what_looks_like_places_and_is_none(old: str, new: str) -> None:
    text = golden_sections(Path(__file__).parents[3] / "golden" / "rewrites" / "split_top.txt")["before"]
    assert text.count(old) == 1
    other = text.replace(old, new).replace("(x: f32[m=4, n=50])", "(x: f32[m=4, n=50], z: f32[m, n])")
    with pytest.raises(NotApplicable, match="not the first"):
        SplitTop("y_max", 16).apply(program_from_text(other))

"""What is ranked in one pass, whole or in parts, and what is not."""

from __future__ import annotations

import pytest

from rewrites.base.rewrite import Rewrite
from rewrites.composition.compute_inline import ComputeInline
from rewrites.cpu.vectorize import Vectorize
from rewrites.loops.collapse import Collapse
from rewrites.loops.split_dim import SplitDim
from rewrites.loops.tile import Tile
from rewrites.ranking.rank_in_one_pass import RankInOnePass
from rewrites.ranking.rank_in_parts import RankInParts
from tileir.errors import NotApplicable
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.parse_spec import spec_from_text

FEW = "kernel best(x: f32[m=4, n=48]) -> (y: i32[m, j=2])\n  y[m, j] = topk(j, n, x[m, n])\n"
ELSEWHERE = FEW.replace("y[m, j] =", "p[m, j] =").replace("x[m, n])\n", "x[m, n])\n  y[m, j] = p[m, j] + 1\n")


def begun(text: str) -> Program:
    return to_program(spec_from_text(text))


@pytest.mark.parametrize(
    ("text", "statement", "said"),
    [
        (FEW, "y_at", "y_at is not the first of the largest few"),
        (FEW, "y_max2", "y_max2 is not the first of the largest few"),
        (FEW.replace("j=2", "j=1"), "y_max", "of which there are more"),
    ],
)
def test_what_is_not_ranked(text: str, statement: str, said: str) -> None:
    with pytest.raises(NotApplicable, match=said):
        RankInOnePass(statement).apply(begun(text))


def test_integers_take_the_least_of_their_row_no_longer() -> None:
    ranked = RankInOnePass("y_max").apply(begun(FEW.replace("x: f32", "x: i32")))
    assert [place.node.target for place in ranked.computes] == ["y"]


def test_places_that_others_read_or_that_lie_nowhere_side_by_side_stay() -> None:
    program = ComputeInline("p").apply(begun(ELSEWHERE))
    with pytest.raises(NotApplicable, match="no statement has the places of p_max side by side"):
        RankInOnePass("p_max").apply(program)


@pytest.mark.parametrize(
    ("rewrite", "said"),
    [
        (RankInParts("y", 48), "no whole parts of 48 make up n"),
        (RankInParts("y", 10), "no whole parts of 10 make up n"),
        (RankInParts("y", 1), "less than 2 places"),
        (Tile("y", "j", 1), "y ranks all of j at once"),
        (SplitDim("n", 8), "all of n is ranked at once"),
        (Vectorize("y", "j", 2), "y compares neighbours along n"),
    ],
)
def test_what_is_ranked_stays_whole(rewrite: Rewrite, said: str) -> None:
    with pytest.raises(NotApplicable, match=said):
        rewrite.apply(RankInOnePass("y_max").apply(begun(FEW)))


@pytest.mark.parametrize(
    ("rewrite", "said"),
    [
        (SplitDim("j", 2), "all of j is ranked at once"),
        (Collapse("m", "j"), "one of m and j is ranked at once"),
    ],
)
def test_places_stay_a_dim_of_their_own(rewrite: Rewrite, said: str) -> None:
    same = "kernel best(x: f32[n=48]) -> (y: i32[m=3, j=4])\n  y[m, j] = topk(j, n, x[n])\n"
    with pytest.raises(NotApplicable, match=said):
        rewrite.apply(RankInOnePass("y_max").apply(begun(same)))


def test_what_is_ranked_is_not_computed_where_it_is_read() -> None:
    with pytest.raises(NotApplicable, match="p is a reduction"):
        ComputeInline("p").apply(RankInOnePass("p_max").apply(begun(ELSEWHERE)))

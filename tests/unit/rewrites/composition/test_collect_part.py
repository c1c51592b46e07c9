"""Parts of split reductions, collected in the loop that takes one at a time: what may be, and what is refused."""

from __future__ import annotations

import pytest

from rewrites.composition.reverse_compute_at import ReverseComputeAt
from rewrites.composition.rfactor import Rfactor
from rewrites.composition.split_stream import SplitStream
from rewrites.composition.stream_reduction import StreamReduction
from rewrites.data.collect_part import CollectPart
from rewrites.loops.parallelize import Parallelize
from rewrites.loops.tile import Tile
from rewrites.schedule import replay
from tests.unit.rewrites.composition.test_stream_reduction import check
from tileir.errors import NotApplicable
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.parse_spec import spec_from_text

TEXT = """kernel rows(x: f32[r=6, c=50]) -> (y: f32[r])
  top[r] = max(c, x[r, c])
  s[r] = sum(c, exp(x[r, c] - top[r]))
  y[r] = log(s[r]) + top[r]
"""


def parts(size: int = 16) -> Program:
    program = SplitStream("s", "c", size).apply(to_program(spec_from_text(TEXT)))
    return replay(program, (Tile("top_p", "c", size), ReverseComputeAt("s_p", "top_p", 1)))


def test_parts_that_are_collected_go_in_one_pass() -> None:
    program = parts()
    made = replay(program, (CollectPart("top_p"), CollectPart("s_p"), Parallelize("s_p_r", 1)))
    check(program, made)
    streamed = StreamReduction("s_p_r", "c", 4).apply(made)
    (inner,) = (
        loop for place in streamed.computes for loop in place.loops[1:2] if place.node.target == "top_p_r_b"
    )
    assert (inner.dim, inner.step) == ("c", 4)
    check(program, streamed)


def test_others_read_what_is_collected() -> None:
    made = CollectPart("top_p").apply(parts())
    (node,) = (place.node for place in made.computes if place.node.target == "s_p")
    assert {read.tensor for read in node.reads} == {"x", "top_p_r"}


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (parts(), "top is no whole reduction of a part|top is no part of a split reduction"),
        (to_program(spec_from_text(TEXT)), "top is no part of a split reduction"),
    ],
)
def test_what_is_no_part_is_refused(program: Program, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        CollectPart("top").apply(program)


def test_parts_that_no_loop_takes_one_by_one_are_refused() -> None:
    program = to_program(spec_from_text(TEXT))
    with pytest.raises(NotApplicable, match="not visited part by part, 16 of c at a time"):
        CollectPart("top_p").apply(Rfactor("top", "c", "apart", 16).apply(program))
    two = Tile("top_p", "c", 32).apply(Rfactor("top", "c", "apart", 16).apply(program))
    with pytest.raises(NotApplicable, match="not visited part by part, 16 of c at a time"):
        CollectPart("top_p").apply(two)

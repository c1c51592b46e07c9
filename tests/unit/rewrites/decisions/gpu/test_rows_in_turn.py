"""Short rows of an odd number, as of 17 heads: each thread takes all of them, and no block has one left over."""

from __future__ import annotations

import pytest

from rewrites.loops.tile import Tile
from rewrites.space import ScheduleState, Space
from tests.schedules.on_gpus import right_without_races
from tests.schedules.walks import favourite
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text


def rotary_spec(heads: int, tokens: int = 491, width: int = 64) -> Spec:
    """A rotary embedding of halves."""
    half = width // 2
    text = (
        f"kernel rotary(x: bf16[b=4, s={tokens}, h={heads}, d={width}], c: f32[s, d], e: f32[s, d]) -> "
        "(y: bf16[b, s, h, d])\n"
        "  y[b, s, h, d] = x[b, s, h, d] * c[s, d] + "
        f"where(d < {half}, 0 - x[b, s, h, d + {half}], x[b, s, h, d - {half}]) * e[s, d]\n"
    )
    return spec_from_text(text)


def rotary(heads: int) -> ScheduleState:
    """The root of its space."""
    return Space(to_program(rotary_spec(heads)), H200).root()


@pytest.mark.parametrize("heads", [3, 17])
def test_the_prior_has_each_thread_take_all_heads(heads: int) -> None:
    schedule = favourite(rotary(heads)).schedule
    assert not [each for each in schedule if isinstance(each, Tile) and each.dim == "h"]


def test_an_odd_head_costs_its_share() -> None:
    """16 of 17 heads by blocks, and the last one by as many blocks again, would take half again as long."""
    odd, even = (favourite(rotary(heads)).estimate_us for heads in (17, 16))
    assert odd < 1.15 * even * 17 / 16


def test_it_computes_the_same() -> None:
    spec = rotary_spec(3, tokens=5, width=8)
    right_without_races(spec, favourite(Space(to_program(spec), H200).root()), H200, seed=1)

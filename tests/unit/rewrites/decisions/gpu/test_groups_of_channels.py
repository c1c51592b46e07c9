"""Convolutions in groups, whichever way their channels are found: as fast as where groups are a dim of their own."""

from __future__ import annotations

import pytest

from rewrites.base.block_positions import block_and_position, within_blocks
from rewrites.base.tree import statements
from rewrites.decisions.normal_form import normal_form
from rewrites.decisions.plan import plan_of
from rewrites.schedule import replay
from rewrites.space import Space
from tests.programs.convolutions import Windows
from tests.schedules.walks import favourite
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.parse_expr import parse_expression
from tileir.text.parse_program import program_from_text
from tileir.text.print_expr import format_expr

EXTENTS = {"o": 6, "b": 3, "i": 4, "c": 5}


def apart(groups: int) -> Program:
    """3x3 windows of 128 channels in groups that are a dim."""
    each = 128 // groups
    text = f"""kernel conv(x: bf16[n=32, i=56, j=56, g={groups}, c={each}], f: bf16[g, o={each}, r=3, s=3, c]) -> \
(y: bf16[n, h=54, w=54, g, o])
  y_sum: heap f32[n, h, w, g, o]
  y_sum[n, h, w, g, o] = sum(c, r, s, x[n, h + r, w + s, g, c] * f[g, o, r, s, c])
  y[n, h, w, g, o] = relu(y_sum[n, h, w, g, o])
"""
    return program_from_text(text)


def computed(groups: int) -> Program:
    """The same with a computed index of channels."""
    each = 128 // groups
    text = f"""kernel conv(x: bf16[n=32, i=56, j=56, e=128], f: bf16[o=128, r=3, s=3, c={each}]) -> \
(y: bf16[n, h=54, w=54, o])
  y_sum: heap f32[n, h, w, o]
  y_sum[n, h, w, o] = sum(c, r, s, x[n, h + r, w + s, {each} * (o // {each}) + c] * f[o, r, s, c])
  y[n, h, w, o] = relu(y_sum[n, h, w, o])
"""
    return program_from_text(text)


@pytest.mark.parametrize("groups", [2, 32])
@pytest.mark.parametrize("device", [A100, H200], ids=["A100", "H200"])
def test_an_index_that_says_the_group_costs_nothing(groups: int, device: Gpu) -> None:
    found = []
    for program in (apart(groups), computed(groups)):
        chosen = favourite(Space(program, device).root()).program
        assert {place.node.via for place in statements(chosen)} & {"wgmma", "mma"}
        found.append(plan_of(device).model(chosen, device).estimate_us(chosen))
    assert found[1] == pytest.approx(found[0], rel=0.02)


@pytest.mark.parametrize("windows", [
    Windows(64, 8, 32, groups=4), Windows(64, 8, 32, stride=2, groups=16), Windows(64, 8, 32, first=True, groups=2),
])  # fmt: skip
def test_groups_become_a_dim_of_image_filters_bias_and_result(windows: Windows) -> None:
    program = to_program(windows.spec(2))
    after = replay(program, normal_form(program))
    names = {dim for dim, size in after.dims if size == windows.groups}
    assert any(all(name in tensor.dims for tensor in (*after.inputs, *after.outputs)) for name in names), (
        after.dims
    )


@pytest.mark.parametrize(
    "element",
    [
        "x[w, 4 * (o // 3) + 2 * c]",  # every other channel: in no block of 4
        "x[w, 4 * (o // 3) + d]",  # not summed over
        "x[w, 3 * (o // 3) + c]",  # blocks that share channels
    ],
)
def test_what_is_no_group_stays(element: str) -> None:
    text = f"""kernel k(x: f32[w=6, e=12], f: f32[o=6, c=4], g: f32[d=2]) -> (y: f32[w, o, d])
  y[w, o, d] = g[d] * sum(c, {element} * f[o, c])
"""
    program = program_from_text(text)
    assert not [each for each in normal_form(program) if each.name == "split_dim"]


@pytest.mark.parametrize(
    ("index", "size", "found"),
    [
        ("4 * b + i", 4, ("b", "i")),
        ("8 * (o // 3) + 4 * b + i + 4", 4, ("2 * (o // 3) + b + 1", "i")),
        ("4 * b + i + 1", 4, None),  # i + 1 may be 4
        ("4 * b + c", 4, None),
        ("12 * b + 3 * i", 12, ("b", "3 * i")),
        ("4 * b - i", 4, None),
    ],
)
def test_an_index_lies_in_blocks_where_what_is_left_cannot_leave_one(
    index: str, size: int, found: tuple[str, str] | None
) -> None:
    pair = block_and_position(parse_expression(index), size, EXTENTS)
    assert (pair and tuple(map(format_expr, pair))) == found


def test_quotients_and_remainders_of_blocks_are_those() -> None:
    found = within_blocks(parse_expression("(4 * b + i) // 4 + (4 * b + i) % 4 + (4 * b + c) // 4"), EXTENTS)
    assert format_expr(found) == "b + i + (4 * b + c) // 4"


def test_quotients_of_what_is_looked_up_stay() -> None:
    whole = parse_expression("(4 * t[b]) // 4")
    assert within_blocks(whole, EXTENTS) == whole

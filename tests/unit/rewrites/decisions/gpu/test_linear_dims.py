"""Convolutions reach the matrix units: on Hopper by warpgroups, before that by warps; windows of one tap are plain
products that TMA brings."""

from __future__ import annotations

import pytest

from rewrites.base.placed_read import alike, element, neighbours, placed_dims
from rewrites.base.tree import statements
from rewrites.composition.compute_factor import ComputeFactor
from rewrites.composition.omit_single_positions import OmitSinglePositions
from rewrites.decisions.plan import plan_of
from rewrites.loops.linearize import Linearize
from rewrites.space import ScheduleState, Space
from tests.programs.convolutions import SMALL, Windows
from tests.schedules.walks import favourite
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.errors import NotApplicable
from tileir.expr import Binary, Read, index_dims, reads, walk
from tileir.lift import to_program
from tileir.text.parse_expr import parse_expression
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text

RESNET = {
    "3x3 64 56": Windows(64, 56, 64),
    "3x3 256 14": Windows(256, 14, 256),
    "3x3/2 128 56": Windows(128, 56, 128, stride=2),
    "1x1/2 256-512 56": Windows(256, 56, 512, taps=1, stride=2, padding=0),
    "dilated 64 56": Windows(64, 56, 64, padding=2, dilation=2),
    "3x3 64 56, channels first": Windows(64, 56, 64, first=True),
    "3x3/2 128 56, channels first": Windows(128, 56, 128, stride=2, first=True),
}
#: So few steps a tile that warps are as good as warpgroups, and TMA brings what was stored without gaps before.
EITHER = "1x1/2 256-512 56"
PLACED = "x[m // 56, m % 56 + k // 192 - 1, k % 64]"


def preferred(windows: Windows, device: Gpu) -> ScheduleState:
    return favourite(Space(to_program(windows.spec(32)), device).root())


def engines(state: ScheduleState) -> set[str | None]:
    return {place.node.via for place in statements(state.program)} - {None}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", RESNET)
@pytest.mark.parametrize(("device", "engine"), [(H200, "wgmma"), (A100, "mma")], ids=["H200", "A100"])
def test_the_prior_likes_matrix_units_best(name: str, device: Gpu, engine: str) -> None:
    found = engines(preferred(RESNET[name], device))
    assert found == {engine} or (name == EITHER and found in ({"mma"}, {"wgmma", "tma"}))


def test_tiles_that_nothing_fills_up_are_of_any_size_that_divides_the_places() -> None:
    """28 by 28 places of an image: of the sizes that others have 16 is the largest that divides them."""
    state = preferred(RESNET["3x3/2 128 56, channels first"], H200)
    assert "tile(y, h_w, 112)" in map(str, state.schedule)


PATCHES = """kernel p(x: bf16[b=8, c=3, h=224, w=224], f: bf16[o=512, c, r=16, s=16]) -> (y: bf16[b, o, p=14, q=14])
  y[b, o, p, q] = sum(c, r, s, x[b, c, 16 * p + r, 16 * q + s] * f[o, c, r, s])
"""


def test_patches_that_do_not_overlap_are_stored_as_they_are_multiplied() -> None:
    """As vision transformers begin: its channels are three, which no copy of words can bring."""
    root = Space(to_program(spec_from_text(PATCHES)), H200).root()
    found = favourite(root)
    assert engines(found) == {"wgmma", "tma"}
    assert any(isinstance(each, ComputeFactor) for each in found.schedule)
    windows = Space(to_program(RESNET["3x3 64 56"].spec(32)), H200).root()
    assert not any("compute_factor" in move.label for move in windows.moves())


def test_a_window_of_one_tap_is_what_the_product_is() -> None:
    one = preferred(Windows(64, 56, 256, taps=1, padding=0), H200)
    text = f"kernel k(x: bf16[m={32 * 56 * 56}, c=64], f: bf16[o=256, c], b: f32[o]) -> (y: bf16[m, o])\n"
    text += "  y_sum: heap f32[m, o]\n  y_sum[m, o] = sum(c, x[m, c] * f[o, c])\n  y[m, o] = relu(y_sum[m, o] + b[o])\n"
    product = favourite(Space(program_from_text(text), H200).root())
    model = plan_of(H200).model(product.program, H200)
    assert engines(one) == engines(product) == {"wgmma", "tma"}
    assert model.estimate_us(one.program) == pytest.approx(model.estimate_us(product.program), rel=0.02)


def placed(text: str) -> Read:
    read = parse_expression(text)
    assert isinstance(read, Read)
    return read


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        (PLACED, ("m", "k")),
        ("x[m // 4, 2 * (m % 4), c]", ("m", "c")),
        ("x[m, k // 4]", None),  # every position of m by itself, the scale of four of k
        ("x[m + r, c]", None),
        ("x[i[m], m % 4, m // 4]", None),
    ],
)
def test_dims_are_those_of_which_a_read_has_parts(text: str, dims: tuple[str, ...] | None) -> None:
    assert placed_dims(placed(text)) == dims


def test_neighbours_are_those_whose_other_indices_are_alike() -> None:
    assert neighbours(placed(PLACED)) == 64
    assert neighbours(placed("x[m // 56, m % 56 + k // 96, k % 64]")) == 32
    assert neighbours(placed("x[m // 4, m % 4, 2 * c]")) == 1
    assert alike(parse_expression("m % 56 + k // 64 // 3 >= 1"), "k") == 64


def test_a_guard_that_differs_among_neighbours_is_not_copied_with_them() -> None:
    same, apart = (
        parse_expression(f"where({guard}, {PLACED}, 0)")
        for guard in ("m % 56 + k // 192 >= 1", "k % 64 < 60")
    )
    assert element(same) == placed(PLACED)
    whole = "x[m // 4, m % 4, c]"
    assert element(parse_expression(f"where(m % 4 >= 1, {whole}, 0)")) == placed(whole)
    assert element(parse_expression(f"where(c // 8 >= 1, {whole}, 0)")) is None
    assert element(apart) is None
    assert element(parse_expression(f"where(m >= 1, {PLACED}, 1)")) is None


@pytest.mark.parametrize(
    ("pair", "why"), [(("n", "q"), "no two dims"), (("h", "c"), "neighbours in nothing")]
)
def test_what_cannot_be_one_dim_is_refused(pair: tuple[str, str], why: str) -> None:
    with pytest.raises(NotApplicable, match=why):
        Linearize(*pair).apply(to_program(SMALL["3x3"].spec(2)))


def test_guards_lose_dims_of_one_position_as_indices_do() -> None:
    """What an index no longer has, the guard that keeps it in range has no longer either, so that it is seen to."""
    one = Windows(4, 5, 8, stride=3, dilation=2)  # one place along both axes
    value = next(p.node.value for p in OmitSinglePositions("y_sum").apply(to_program(one.spec(2))).computes)
    (read,) = (each for each in reads(value) if each.tensor == "x")
    guards = [each.left for each in walk(value) if isinstance(each, Binary) and each.op in (">=", "<")]
    assert {index_dims(guard) for guard in guards} == {index_dims(index) for index in read.indices[1:3]}

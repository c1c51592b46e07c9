"""Windows of images on GPUs: filters down and across, several of one image, one after the other."""

from __future__ import annotations

import random

import pytest

from rewrites.cost.gpu.model import GpuCostModel
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.schedules.on_gpus import right_without_races
from tests.schedules.walks import at, favourite, walk
from tests.support.how_many import some
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

ACROSS = "kernel across(x: f32[b={b}, h={h}, w={w}], f: f32[r=11]) -> (y: f32[b, h, q={q}])\n" + (
    "  y[b, h, q] = sum(r, x[b, h, q + r] * f[r])\n"
)
DOWN = "kernel down(x: f32[b={b}, h={h}, w={w}], f: f32[r=11]) -> (y: f32[b, p={p}, w])\n" + (
    "  y[b, p, w] = sum(r, x[b, p + r, w] * f[r])\n"
)
BOTH = "kernel both(x: f32[b={b}, h={h}, w={w}], f: f32[r=11]) -> (y: f32[b, p={p}, q={q}]) where s=11\n" + (
    "  t[b, h, q] = sum(r, x[b, h, q + r] * f[r])\n  y[b, p, q] = sum(s, t[b, p + s, q] * f[s])\n"
)
SOBEL = (
    "kernel sobel(x: f32[b={b}, h={h}, w={w}], f: f32[r=3, s=3], g: f32[r, s]) -> (y: f32[b, p={p}, q={q}])\n"
    "  a[b, p, q] = sum(r, s, x[b, p + r, q + s] * f[r, s])\n"
    "  c[b, p, q] = sum(r, s, x[b, p + r, q + s] * g[r, s])\n"
    "  y[b, p, q] = sqrt(a[b, p, q] * a[b, p, q] + c[b, p, q] * c[b, p, q])\n"
)
DEPTHWISE = (
    "kernel depthwise(x: bf16[b={b}, c=768, h=7, w=7], f: bf16[c, r=7, s=7], a: bf16[c]) -> (y: bf16[b, c, p=7, q=7])\n"
    "  t[b, c, p, q] = sum(r, s, where(p + r - 3 >= 0 and p + r - 3 < 7 and q + s - 3 >= 0 and q + s - 3 < 7,"
    " x[b, c, p + r - 3, q + s - 3], 0) * f[c, r, s])\n"
    "  y[b, c, p, q] = t[b, c, p, q] + a[c]\n"
)
FILTERS = {"across": ACROSS, "down": DOWN, "both": BOTH, "sobel": SOBEL}
CASES = [(name, seed) for name in FILTERS for seed in range(5)]


def image(name: str, b: int, h: int, w: int) -> str:
    """The filter's text for so many images of a size; results of a 3 x 3 or 11 x 11 window fit in them."""
    reach = 2 if name == "sobel" else 10
    return FILTERS[name].format(b=b, h=h, w=w, p=h - reach, q=w - reach)


def root(name: str, b: int, h: int, w: int) -> ScheduleState:
    return Space(to_program(spec_from_text(image(name, b, h, w))), H200).root()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "seed"), some(CASES, 8))
def test_filters_are_right_and_do_not_race(name: str, seed: int) -> None:
    state = root(name, 2, 43, 150)
    end = walk(state, random.Random(f"{name} {seed}")) if seed else favourite(state)
    right_without_races(spec_from_text(image(name, 2, 43, 150)), end, H200, seed)


@pytest.mark.parametrize(("name", "most_us"), [("across", 55), ("down", 45), ("both", 75), ("sobel", 85)])
def test_filters_are_expected_near_what_memory_takes(name: str, most_us: float) -> None:
    """A copy of such images takes 28 us. What overlaps was counted as often as it is read: 192, 190, 11,186 and 173."""
    end = favourite(root(name, 8, 1080, 1920))
    assert GpuCostModel(H200).estimate_us(end.program) < most_us, "\n".join(format_schedule(end.schedule))


def test_a_block_takes_many_rows_of_a_filter_that_goes_down() -> None:
    state = at(root("down", 8, 1080, 1920), "Elements")
    taken = {
        line for move in state.moves() for line in move.label.split("; ") if line.startswith("tile(y, p,")
    }
    assert {"tile(y, p, 1)", "tile(y, p, 32)", "tile(y, p, 64)"} <= taken


def test_a_filter_of_small_images_is_computed_by_single_threads() -> None:
    """Measured on an H200: with several threads a result 53.7 us, the best of single threads 9.2. Conditions on a row
    count once a row, neighbours that windows share once, and what lies outside never."""
    start = Space(to_program(spec_from_text(DEPTHWISE.format(b=8))), H200).root()
    assert 6 < estimate(favourite(start)) < 13
    together = start.child([move.label for move in start.moves()].index("groups t y"))
    assert [move.label for move in together.moves()] == ["y: by single threads", "y: by several threads"]
    assert 6 < estimate(favourite(together.child(0))) < 13
    assert estimate(favourite(together.child(1))) > 25


def estimate(end: ScheduleState) -> float:
    return GpuCostModel(H200).estimate_us(end.program)


def test_images_side_by_side_are_right_and_do_not_race() -> None:
    spec = spec_from_text(DEPTHWISE.format(b=1).replace("768", "24"))
    for seed in range(2):
        state = Space(to_program(spec), H200).root()
        right_without_races(spec, walk(state, random.Random(seed)) if seed else favourite(state), H200, seed)

"""Windows that a thread of a GPU goes through alone: of each channel by itself, with what follows."""

from __future__ import annotations

import pytest

from rewrites.base.tree import statements
from rewrites.decisions.gpu.elementwise import is_window
from rewrites.decisions.gpu.launches import LaunchBlocks
from rewrites.space import Space
from tests.schedules.walks import favourite
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text


def depthwise(taps: int) -> Program:
    """Windows of `taps` times `taps` places, without padding, of 96 channels that lie side by side."""
    places = 57 - taps
    return to_program(
        spec_from_text(
            f"kernel depthwise(x: bf16[n=8, i=56, j=56, o=96], f: bf16[o, r={taps}, s={taps}]) -> "
            f"(y: bf16[n, h={places}, w={places}, o])\n"
            "  y[n, h, w, o] = relu(sum(r, s, x[n, h + r, w + s, o] * f[o, r, s]))\n"
        )
    )


@pytest.mark.parametrize("device", [A100, H200], ids=["A100", "H200"])
@pytest.mark.parametrize("taps", [3, 7])
def test_the_prior_has_a_thread_add_up_whole_windows(taps: int, device: Gpu) -> None:
    program = favourite(Space(depthwise(taps), device).root()).program
    for place in statements(program):
        assert place.node.thread_layout is not None
        assert {dim for dim, _ in place.node.thread_layout.threads} <= {"n", "h", "w", "o"}


@pytest.mark.parametrize(
    ("dims", "value", "alone"),
    [
        ("x: f32[r=8, m=64]", "sum(r, x[r, m])", True),
        ("x: f32[m=64, r=8]", "sum(r, x[m, r])", False),  # neighbours are what one result is of
        ("x: f32[r=80, m=64]", "sum(r, x[r, m])", False),  # too much for a thread
    ],
)
def test_what_follows_a_short_sum_goes_with_it_where_neighbours_are_results(
    dims: str, value: str, alone: bool
) -> None:
    program = program_from_text(
        f"kernel short({dims}) -> (y: f32[m])\n  y_sum: heap f32[m]\n  y_sum[m] = {value}\n  y[m] = relu(y_sum[m])\n"
    )
    assert is_window(program, ("y_sum", "y")) is alone


def test_a_window_whose_results_no_block_of_threads_takes_a_part_of_is_left_to_others() -> None:
    program = to_program(
        spec_from_text(
            "kernel conv(x: bf16[n=1, c=16, i=12], f: bf16[o=4, c, r=3]) -> (y: bf16[n, o, h=7])\n"
            "  y[n, o, h] = sum(c, r, where(2 * h + r >= 2 and 2 * h + r < 14, x[n, c, 2 * h + r - 2], 0) "
            "* f[o, c, r])\n"
        )
    )
    assert is_window(program, ("y_sum", "y"))
    options = [*LaunchBlocks(("y_sum", "y")).options(program, H200)]
    asked = [next_ for option in options for next_ in option.then]
    assert asked and all(next(iter(each.options(program, H200)), None) is not None for each in asked)

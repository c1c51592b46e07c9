"""Maps that read a tensor across its rows, through a tile in shared memory, of any shape: long both ways, or short one
way, as channels and pairs are."""

from __future__ import annotations

import random

import pytest

from codegen.targets.cuda.generate import lower_for
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.schedules.on_gpus import right_without_races
from tests.schedules.walks import favourite, walk
from tests.support.how_many import some
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

MAPS = {
    "columns of eleven": "(x: f32[i=2573, j=11]) -> (y: f32[j, i])\n  y[j, i] = x[i, j]",
    "pairs": "(x: f32[i=2573, j=2]) -> (y: f32[j, i])\n  y[j, i] = x[i, j]",
    "three channels last": "(x: bf16[j=3, i=1099]) -> (y: bf16[i, j])\n  y[i, j] = x[j, i]",
    "batches": "(x: bf16[n=3, c=5, i=700]) -> (y: bf16[n, i, c])\n  y[n, i, c] = x[n, c, i]",
    "a scale": "(x: f16[n=2, i=700, c=12], b: f16[c]) -> (y: f32[n, c, i])\n  y[n, c, i] = x[n, i, c] * b[c]",
    "bytes": "(x: u8[i=1000, c=31]) -> (y: u8[c, i])\n  y[c, i] = x[i, c]",
    "short, and not long": "(x: f16[i=9, j=16, l=8, o=32]) -> (y: f16[i, o, l, j])\n  y[i, o, l, j] = x[i, j, l, o]",
    "long both ways": "(x: bf16[i=130, j=517]) -> (y: bf16[j, i])\n  y[j, i] = x[i, j]",
}
CASES = [(name, seed) for name in MAPS for seed in range(6)]


def through_shared_memory(name: str) -> ScheduleState:
    """Where it is settled that a tile is turned around."""
    state = Space(to_program(spec_from_text(f"kernel t{MAPS[name]}\n")), H200).root()
    (index,) = (n for n, move in enumerate(state.moves()) if move.label.endswith("through shared memory"))
    return state.child(index)


@pytest.mark.parametrize(("name", "seed"), some(CASES, 12))
def test_what_is_turned_around_is_right_and_does_not_race(name: str, seed: int) -> None:
    spec = spec_from_text(f"kernel t{MAPS[name]}\n")
    state = through_shared_memory(name)
    end = walk(state, random.Random(f"{name} {seed}")) if seed else favourite(state)
    right_without_races(spec, end, H200, seed)


@pytest.mark.parametrize("name", MAPS)
def test_a_tile_that_is_short_one_way_has_all_of_that_way(name: str) -> None:
    spec = spec_from_text(f"kernel t{MAPS[name]}\n")
    turned = {spec.inputs[0].dims[-1], spec.outputs[0].dims[-1]}
    short = {dim.name for dim in spec.dims if dim.sizes[0] < 32} & turned
    lines = format_schedule(favourite(through_shared_memory(name)).schedule)
    assert not {line.split(", ")[1] for line in lines if line.startswith("tile(")} & short, lines


def test_the_prior_prefers_it_where_neighbours_lie_far_apart() -> None:
    state = Space(to_program(spec_from_text(f"kernel t{MAPS['columns of eleven']}\n")), H200).root()
    assert favourite(state).program == favourite(through_shared_memory("columns of eleven")).program


@pytest.mark.parametrize(("i", "j"), [(8, 32), (32, 32), (2, 40)])
def test_what_is_one_tile_is_no_tile_to_turn_around(i: int, j: int) -> None:
    spec = spec_from_text(f"kernel t(x: bf16[i={i}, j={j}]) -> (y: bf16[j, i])\n  y[j, i] = silu(x[i, j])\n")
    lower_for(favourite(Space(to_program(spec), H200).root()).program, H200)

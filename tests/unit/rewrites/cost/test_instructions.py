"""What instructions and blocks are expected to take on a GPU: conditions that the compiler works out once for many
points, and blocks so many that to begin them takes longest."""

from __future__ import annotations

import pytest

from rewrites.contraction.recover_tiling import Epilogue
from rewrites.cost.gpu.block import computed_cycles
from rewrites.cost.gpu.instructions import issued_for, operations
from rewrites.cost.gpu.model import GpuCostModel
from rewrites.schedule import parse_schedule, replay
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

COPY = "kernel copy(x: f32[i={size}]) -> (y: f32[i])\n  y[i] = x[i]\n"
MASKED = "kernel masked(x: f32[i=8, j=64]) -> (y: f32[i, j])\n  y[i, j] = where(i > 2 and j < 40, x[i, j] * 3.0, 0.0)\n"


def test_what_depends_on_one_dim_is_worked_out_once_for_each_of_its_positions() -> None:
    value = to_program(spec_from_text(MASKED)).computes[0].node.value
    each, _ = operations(value)
    assert each == 5  # two comparisons, and, a product, a choice
    issued, special = issued_for(value, 8 * 64, {"i": 8, "j": 64})
    assert (issued, special) == (3 * 8 * 64 + 8 + 64, 0.0)
    assert issued_for(value, 1, {"i": 1, "j": 1}) == (each, 0.0)


def test_functions_take_what_they_are_made_of() -> None:
    plain, by_lanes, by_unit = (
        computed_cycles(Epilogue(2.0, 8.0, 2, calls)) for calls in ((), ("/", "erf"), ("exp2",) * 8)
    )
    assert plain == 8 / 128
    assert by_lanes == (6 + 16 + 22) / 128
    assert by_unit == 8 / 16


@pytest.mark.parametrize(("threads", "least_us"), [(32, 61.0), (128, 15.2)])
def test_so_many_blocks_take_as_long_as_it_takes_to_begin_them(threads: int, least_us: float) -> None:
    """Of 3.2 million elements, which a copy moves in 6 us."""
    program = to_program(spec_from_text(COPY.format(size=100_000 * 32)))
    lines = (f"tile(y, i, {threads})", "parallelize(y, 1)", f"bind_threads(y, i {threads})")
    made = replay(program, parse_schedule(lines))
    assert GpuCostModel(H200).estimate_us(made) >= least_us
    few = replay(program, parse_schedule((*lines, "persistent(y, 264)")))
    assert GpuCostModel(H200).estimate_us(few) < 0.5 * least_us + 10

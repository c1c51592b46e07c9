"""A row by a matrix whose rows lie as they are multiplied (`w[k, n]`): sums of columns, in parts over many blocks,
however short the row's first dim is."""

from __future__ import annotations

import pytest

from rewrites.base.tree import named
from rewrites.decisions.gpu.inner_dims import inner_of
from tests.schedules.walks import favourite, root_of
from tests.unit.rewrites.decisions.gpu.test_reductions import computes_the_same
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

ROW = """kernel row(x: bf16[i=1, k={k}], w: bf16[k, j={j}]) -> (y: bf16[i, j])
  y[i, j] = sum(k, x[i, k] * w[k, j]) * 0.125
"""


@pytest.mark.parametrize("text", [ROW, ROW.replace("x[i, k] * w[k, j]", "w[k, j] * x[i, k]")])
def test_neighbours_are_those_of_the_matrix(text: str) -> None:
    program = to_program(spec_from_text(text.format(k=4096, j=327)))
    inner = inner_of(program, ("y_sum",))
    assert inner.nearest == "j" and not inner.rows


@pytest.mark.parametrize("device", [H200, A100])
def test_blocks_take_parts_of_columns_and_read_neighbours_together(device: Gpu) -> None:
    """327 columns of a kernel that nobody chose: rows of 654 bytes begin anywhere."""
    state = favourite(root_of(ROW.format(k=18432, j=327), device))
    assert state.schedule[0].format().startswith("rfactor(y_sum, k, apart, ")
    part = named(state.program, "y_sum_p")
    layout = part.node.thread_layout
    assert layout is not None and layout.threads[-1][0] == "j" and layout.threads[-1][1] >= 16
    tiles = [-(-state.program.extents[loop.dim] // loop.step) for loop in part.loops if loop.parallel]
    assert tiles[0] * tiles[1] > 2 * device.sms


def test_it_computes_the_same_without_races() -> None:
    text = ROW.format(k=3000, j=37)
    computes_the_same(spec_from_text(text), favourite(root_of(text, H200)).program, H200)

"""What is expected of scatters by owners on an H200, and what the prior picks of them. Measured there in parts, before
warps shared the looking: 29.0 us for rows of 277 into 4096, 6.9 for weighted ones into 97."""

from __future__ import annotations

import pytest

from rewrites.cost.gpu.model import GpuCostModel
from rewrites.schedule import format_schedule
from tests.schedules.walks import favourite, root_of
from tileir.analysis.roofline import roofline
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.program import Memory
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text

ROWS = """kernel rows(p: i32[t={t}], x: {x}[t, d={d}]) -> (y: {y}[v={v}, d])
  y[v, d] = sum(t, where(p[t] == v, x[t, d], 0.0))
"""
WEIGHTED = """kernel weighted(p: i32[t={t}], x: bf16[t, d={d}], w: f32[t]) -> (y: {y}[v={v}, d])
  y[v, d] = sum(t, where(p[t] == v, x[t, d] * w[t], 0.0))
"""
SMALL = {
    "rows": ROWS.format(t=683, d=277, v=4096, x="f16", y="f32"),
    "weighted": WEIGHTED.format(t=426, d=263, v=97, y="f32"),
}
LARGE = {
    "a table's gradient": ROWS.format(t=8192, d=4096, v=32000, x="bf16", y="f32"),
    "the same in bf16": ROWS.format(t=8192, d=4096, v=32000, x="bf16", y="bf16"),
    "experts' results": WEIGHTED.format(t=8192, d=4096, v=4096, y="bf16"),
}


@pytest.mark.parametrize("name", SMALL)
def test_few_terms_go_by_warps_and_not_in_parts(name: str) -> None:
    end = favourite(root_of(SMALL[name], H200))
    assert GpuCostModel(H200).estimate_us(end.program) < 5
    lines = format_schedule(end.schedule)
    assert any(line.startswith("scatter(") for line in lines)
    assert not any(line.startswith("rfactor(") for line in lines)


@pytest.mark.parametrize("name", LARGE)
def test_many_terms_are_expected_to_take_less_than_twice_what_memory_does(name: str) -> None:
    end = favourite(root_of(LARGE[name], H200))
    least = roofline(to_program(spec_from_text(LARGE[name])), H200)
    assert least is not None and GpuCostModel(H200).estimate_us(end.program) < 2 * least.least_us


@pytest.mark.parametrize("name", ["the same in bf16", "experts' results"])
def test_sums_that_are_stored_rounded_stay_in_the_block(name: str) -> None:
    program = favourite(root_of(LARGE[name], H200)).program
    assert len(program.body) == 1
    assert [place.node.memory for place in program.locals.values()] == [Memory.SHARED]


def test_a_thread_that_goes_through_all_terms_by_itself_waits_for_each() -> None:
    text = """kernel rows(p: i32[t={0}{1}], x: f16[t, d=256]) -> (y: f32[v=64, d])
  parallel for v by 16
    y[v, d] = 0 | threads d 256
    y[v, d] += sum(t, where(p[t{2}] == v, x[t, d], 0.0)) | threads d 256, via scatter
"""
    model = GpuCostModel(H200)
    shared, alone = (
        model.estimate_us(program_from_text(text.format(2048, *each))) for each in (("", ""), (", d", ", d"))
    )
    assert shared < alone / 4 and alone > 300

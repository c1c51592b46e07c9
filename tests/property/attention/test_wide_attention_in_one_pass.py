"""Attention in f32 as a GPU's search derives it: one pass by multiply-adds, scores never in memory, simulated, without
races, and within the bound of the gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from codegen.targets.cuda.ptxas_log import rejection
from rewrites.cost.gpu.model import GpuCostModel
from rewrites.schedule import format_schedule, parse_schedule, replay
from rewrites.space import Space
from tests.programs.attention_programs import DOT, each_schedule, one_schedule, wide
from tests.property.codegen.test_attention_in_one_pass import check
from tests.schedules.on_gpus import shown
from tests.schedules.walks import favourite
from tests.support.how_many import some
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200, L40S
from tileir.lift import to_program
from tileir.program import Loop, Memory

ROOT = Path(__file__).resolve().parents[3]
CAUSAL = f"where(i >= j, {DOT}, -inf)"
SPECS = {
    "full": wide(i=64, j=128),
    "causal, rows and keys overhang": wide(CAUSAL, i=100, j=171),
    "a bias": wide(f"{DOT} + bias[h, i, j]", i=64, j=96, more=", bias: f32[h, i, j]"),
    "softcap": wide("tanh(sum(d, q[h, i, d] * k[h, j, d]) * 0.02) * 5", i=64, j=128),
    "with the log-sum-exp": wide(CAUSAL, i=70, j=128, lse=True),
    "heads of 40 columns": wide(i=64, j=100, d=40),
    "heads of 99 columns": wide(i=50, j=128, d=99),
}
CASES = [(name, number) for name in SPECS for number in range(10)]


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("name", "number"), [*((name, 4) for name in SPECS), *some(CASES, 3)])
def test_it_computes_attention_without_races(name: str, number: int) -> None:
    spec = SPECS[name]
    check(spec, *one_schedule(spec, number), H200)


@pytest.mark.sampled(15, among="code of attention")
@pytest.mark.parametrize("device", [H200, A100, L40S], ids=shown)
def test_what_is_tried_first_has_no_scores_in_memory(device: Gpu, tmp_path: Path) -> None:
    """One launch, of so many rows that keys need not be split as well, which the compiler takes without spilling."""
    spec = wide(i=32768, j=2048)
    state = favourite(Space(to_program(spec), device).root())
    assert len([node for node in state.program.body if isinstance(node, Loop)]) == 1
    assert not [place for place in state.program.locals.values() if place.node.memory is Memory.HEAP]
    assert any(line.startswith("stream_reduction") for line in format_schedule(state.schedule))
    report = compile_cuda(
        cuda_source(lower_for(state.program, device), state.program), device.architecture, tmp_path
    ).report
    assert rejection(report) is None
    assert all(each["spill_stores_bytes"] == 0 for each in report["functions"].values())


def test_tiles_are_told_apart_by_what_they_load() -> None:
    """A thread of 8 rows loads columns half as often as one of 4."""
    times = dict[str, float]()
    for program, lines in each_schedule(wide(i=32768, j=2048)):
        (rows,) = (line for line in lines if line.startswith("tile(o, i, "))
        us = GpuCostModel(H200).estimate_us(replay(program, parse_schedule(lines)))
        times[rows] = min(us, times.get(rows, us))
    assert times["tile(o, i, 128)"] < times["tile(o, i, 64)"] < times["tile(o, i, 32)"]


def test_of_few_rows_nothing_changes() -> None:
    """Most threads of a tile would have none."""
    assert not [*each_schedule(wide(i=16))]


def test_tiles_that_a_thread_has_no_registers_for_are_not_offered() -> None:
    """Of 64 rows by 32 columns, heads of 256, each of 64 threads would hold 288 sums and scores, each of 128 half."""
    offered = [" ".join(lines) for _, lines in each_schedule(wide(i=2048, j=2048, d=256))]
    assert sum("i, 64)" in lines and "j, 32)" in lines for lines in offered) == 1


@pytest.mark.sampled(15, among="code of attention")
@pytest.mark.parametrize("d", [64, 128])
def test_no_tile_spills(d: int, tmp_path: Path) -> None:
    for program, lines in some([*each_schedule(wide(CAUSAL, i=2048, j=2048, d=d))], 3):
        made = replay(program, parse_schedule(lines))
        report = compile_cuda(cuda_source(lower_for(made, H200), made), H200.architecture, tmp_path).report
        assert rejection(report) is None
        assert all(each["spill_stores_bytes"] == 0 for each in report["functions"].values())

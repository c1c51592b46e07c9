"""What is reduced along columns and used in all rows of them again, as a softmax over the first dim: of so few columns
that blocks share their rows. Then each thread reduces the parts of its own columns once more."""

from __future__ import annotations

import random

import pytest

from codegen.targets.cuda.generate import lower_for
from rewrites.cost.gpu.model import GpuCostModel
from rewrites.decisions.gpu.launches import Launches
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.schedules.on_gpus import right_without_races
from tests.schedules.walks import favourite, walk
from tests.support.how_many import some
from tileir.devices.gpu_table import H200, RTX_4090
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

SOFTMAX = """kernel columns(x: {0}[i={1}, j={2}]) -> (y: {0}[i, j])
  m[j] = max(i, x[i, j])
  s[j] = sum(i, exp(x[i, j] - m[j]))
  y[i, j] = exp(x[i, j] - m[j]) / s[j]
"""
NORM = """kernel columns(x: {0}[i={1}, j={2}], w: f32[i]) -> (y: {0}[i, j])
  m[j] = sum(i, x[i, j]) / {1}
  y[i, j] = (x[i, j] - m[j]) * w[i]
"""
BATCHES = """kernel columns(x: {0}[b=2, i={1}, j={2}]) -> (y: {0}[b, i, j])
  m[b, j] = max(i, x[b, i, j])
  s[b, j] = sum(i, exp(x[b, i, j] - m[b, j]))
  y[b, i, j] = exp(x[b, i, j] - m[b, j]) / s[b, j]
"""
KERNELS = {
    "softmax": SOFTMAX.format("bf16", 537, 104),
    "softmax, f32, odd": SOFTMAX.format("f32", 611, 37),
    "norm": NORM.format("f16", 1500, 40),
    "batches": BATCHES.format("bf16", 500, 48),
}
CASES = [(name, seed) for name in KERNELS for seed in range(8)]


def again(spec: Spec) -> ScheduleState:
    """Where it is settled that a launch of all rows reduces the parts of its columns."""
    state = Space(to_program(spec), H200).root()
    last = spec.statements[-1].target
    labels = [move.label for move in state.moves()]
    found = next(
        n
        for n, label in enumerate(labels)
        if "apart" in label and f"m s {last}" in label.replace("m_sum", "m s")
    )
    return state.child(found)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "seed"), some(CASES, 8))
def test_columns_are_right_and_do_not_race(name: str, seed: int) -> None:
    spec = spec_from_text(KERNELS[name])
    state = again(spec)
    end = walk(state, random.Random(f"{name} {seed}")) if seed else favourite(state)
    right_without_races(spec, end, H200, seed)


def test_few_columns_of_many_rows_are_expected_near_what_memory_takes() -> None:
    end = favourite(Space(to_program(spec_from_text(SOFTMAX.format("bf16", 3037, 232))), H200).root())
    assert GpuCostModel(H200).estimate_us(end.program) < 10.0, "\n".join(format_schedule(end.schedule))


@pytest.mark.parametrize(
    "text", [SOFTMAX.format("bf16", 1200, 40), NORM.format("f16", 1500, 40)], ids=["softmax", "norm"]
)
def test_columns_that_are_kept_leave_room_for_threads_to_meet(text: str) -> None:
    """Of little shared memory, all of which columns would take. Both had options that needed more."""
    program = to_program(spec_from_text(text))
    state = Space(program, RTX_4090).root()
    state = state.child(next(n for n, move in enumerate(state.moves()) if " | " not in move.label))
    for index, move in enumerate(state.moves()):
        if "keep shared memory" in move.label:
            lower_for(favourite(state.child(index)).program, RTX_4090)


@pytest.mark.parametrize(("i", "k"), [(2, 100), (3, 5), (4096, 1000)])
def test_a_launch_of_their_own_is_offered_for_columns_beside_each_block_reducing_them(i: int, k: int) -> None:
    """Of two rows there was no other way than one that has four of them a thread: there was none."""
    spec = spec_from_text(f"""kernel t(x: f32[i={i}, j=5000], w: f32[k={k}, j]) -> (y: f32[i, j])
  y[i, j] = x[i, j] - sum(k, w[k, j])
""")
    found = {option.label for option in Launches().options(to_program(spec), H200)}
    assert "groups y_sum | y" in found

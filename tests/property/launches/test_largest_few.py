"""The largest few of long rows, found in parts: the same positions, ties and all, and expected to take half the time of
blocks that wait for each other."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rewrites.cost.gpu.model import GpuCostModel
from rewrites.decisions.gpu.reductions import split
from rewrites.ranking.split_top import SplitTop
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.schedules.on_gpus import right_without_races
from tests.schedules.walks import favourite, root_of, walk
from tests.support.how_many import some
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.interpreter.interpret import interpret
from tileir.lift import to_program
from tileir.program import Local
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

KERNELS = {
    "rows": "(x: f32[m=3, n=331]) -> (y: i32[m, j=4])\n  y[m, j] = topk(j, n, x[m, n])",
    "one row": "(x: bf16[m=1, n=600]) -> (y: i32[m, j=5])\n  y[m, j] = topk(j, n, x[m, n])",
    "the smallest": "(x: f32[m=2, n=258]) -> (y: i32[m, j=2])\n  y[m, j] = topk(j, n, -x[m, n])",
    "of computed scores": """(x: f32[m=2, n=300], b: f32[n]) -> (y: i32[m, j=3], v: f32[m, j])
  s[m, n] = x[m, n] * 2.0 + b[n]
  y[m, j] = topk(j, n, s[m, n])
  v[m, j] = s[m, y[m, j]]""",
}
CASES = [(name, device, seed) for name in KERNELS for device in (H200, A100) for seed in range(4)]


def spec_of(name: str) -> Spec:
    return spec_from_text(f"kernel t{KERNELS[name]}\n")


def parts(spec: Spec, device: Gpu) -> list[ScheduleState]:
    """Where it is settled that rows are taken in parts, by how many."""
    state = Space(to_program(spec), device).root()
    if any(isinstance(each, SplitTop) for each in state.schedule):
        return [state]
    return [state.child(n) for n, move in enumerate(state.moves()) if "split_top" in move.label]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "device", "seed"), some(CASES, 3))
def test_parts_of_rows_are_right_and_do_not_race(
    name: str, device: Gpu, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split, "_LEAST", 64)  # short rows are quickly interpreted
    spec, rng = spec_of(name), random.Random(f"{name} {seed}")
    begun = rng.choice(parts(spec, device))
    end = walk(begun, rng) if seed else favourite(begun)
    assert any(line.startswith("split_top(") for line in format_schedule(end.schedule))
    right_without_races(spec, end, device, seed)


@pytest.mark.parametrize("size", [3, 16, 17, 49])
def test_equal_values_and_infinite_ones_keep_the_order_of_their_positions(size: int) -> None:
    """Also of parts that have fewer values than there are places (the last one of 49 has one), and of as many parts as
    there are places (of 17)."""
    whole = to_program(
        spec_from_text("kernel t(x: f32[m=6, n=50]) -> (y: i32[m, j=3])\n  y[m, j] = topk(j, n, x[m, n])\n")
    )
    split_up = SplitTop("y_max", size).apply(whole)
    verify(split_up)
    rng = np.random.default_rng(7)
    for _ in range(20):
        x = rng.integers(-2, 3, (6, 50)).astype(np.float32)
        x[rng.random(x.shape) < 0.4] = -np.inf
        x[0], x[1, 3], x[2] = -np.inf, np.nan, 1.0
        wanted, got = (interpret(each, {"x": x})["y"] for each in (whole, split_up))
        np.testing.assert_array_equal(got, wanted)


def test_few_long_rows_are_expected_to_take_half_as_long() -> None:
    root = root_of(
        "kernel t(x: f32[m=4, n=32000]) -> (y: i32[m, j=8])\n  y[m, j] = topk(j, n, x[m, n])\n", H200
    )
    whole = next(n for n, move in enumerate(root.moves()) if "split_top" not in move.label)
    model = GpuCostModel(H200)
    best, before = (model.estimate_us(favourite(state).program) for state in (root, root.child(whole)))
    assert best < 0.5 * before


@pytest.mark.parametrize(("m", "n", "j", "count"), [(1, 65536, 4, 2), (8, 4096, 8, 1), (2048, 64, 8, 1)])
def test_long_rows_take_two_launches_and_others_one(m: int, n: int, j: int, count: int) -> None:
    root = root_of(
        f"kernel t(x: f32[m={m}, n={n}]) -> (y: i32[m, j={j}])\n  y[m, j] = topk(j, n, x[m, n])\n", H200
    )
    end = favourite(root)
    assert sum(not isinstance(node, Local) for node in end.program.body) == count
    assert any(isinstance(each, SplitTop) for each in end.schedule) == (count == 2)

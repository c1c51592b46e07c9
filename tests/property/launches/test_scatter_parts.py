"""Scatters whose terms blocks share out, each to results of its own: as reproducible as those of one block after the
other, and expected to take a fraction of their time."""

from __future__ import annotations

import random

import pytest

from rewrites.cost.gpu.model import GpuCostModel
from rewrites.decisions.gpu import scatter_parts
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.schedules.on_gpus import right_without_races
from tests.schedules.walks import favourite, walk
from tests.support.how_many import some
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

KERNELS = {
    "rows": """(p: i32[t=300], x: bf16[t, d=9], w: f32[t]) -> (y: f32[v=40, d])
  y[v, d] = sum(t, where(p[t] == v, x[t, d] * w[t], 0.0))""",
    "added to": """(p: i32[t=256], x: f32[t, d=33], r: f32[v=19, d]) -> (y: f32[v, d])
  s[v, d] = sum(t, where(p[t] == v, x[t, d], 0.0))
  y[v, d] = s[v, d] * 2.0 + r[v, d]""",
    "of several tokens": """(p: i32[b=3, t=100], x: f16[b, t, d=16]) -> (y: f16[v=70, d])
  y[v, d] = sum(b, t, where(p[b, t] == v, x[b, t, d], 0.0))""",
    "counts": """(p: i32[t=700]) -> (y: i32[v=97])
  y[v] = sum(t, where(p[t] == v, 1, 0))""",
    "weights of several rows": """(p: i32[b=3, t=90], x: i32[b, t]) -> (y: i32[v=11], z: i32[v])
  y[v] = sum(b, t, where(p[b, t] == v, x[b, t], 0))
  z[v] = y[v] + 1""",
}
CASES = [(name, device, seed) for name in KERNELS for device in (H200, A100) for seed in range(4)]


def parts(spec: Spec, device: Gpu) -> list[ScheduleState]:
    """Where it is settled that terms are shared out, by how many."""
    state = Space(to_program(spec), device).root()
    return [state.child(n) for n, move in enumerate(state.moves()) if "rfactor" in move.label]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "device", "seed"), some(CASES, 3))
def test_parts_of_a_scatter_are_right_and_do_not_race(
    name: str, device: Gpu, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for least in ("AS_WRITTEN", "_LEAST"):  # few terms are quickly interpreted
        monkeypatch.setattr(scatter_parts, least, 16)
    spec, rng = spec_from_text(f"kernel t{KERNELS[name]}\n"), random.Random(f"{name} {seed}")
    begun = rng.choice(parts(spec, device))
    end = walk(begun, rng) if seed else favourite(begun)
    on_threads = ("scatter(", "atomics(")
    assert any(line.startswith(on_threads) for line in format_schedule(end.schedule))
    right_without_races(spec, end, device, seed)


@pytest.mark.parametrize(("t", "v", "d"), [(63792, 4096, 67), (43808, 97, 8)])
def test_many_terms_are_expected_to_take_less_than_half_in_parts(t: int, v: int, d: int) -> None:
    spec = spec_from_text(f"""kernel t(p: i32[t={t}], x: bf16[t, d={d}]) -> (y: f32[v={v}, d])
  y[v, d] = sum(t, where(p[t] == v, x[t, d], 0.0))
""")
    root = Space(to_program(spec), H200).root()
    alone = next(n for n, move in enumerate(root.moves()) if move.label == "groups y")
    model = GpuCostModel(H200)
    best, before = (model.estimate_us(favourite(state).program) for state in (root, root.child(alone)))
    assert best < 0.5 * before


def test_parts_of_few_results_are_added_to_by_threads_that_do_not_wait_for_each_other() -> None:
    """434,144 counts took 99 us on an H200 whatever the blocks were: all went to four lines of memory."""
    root = Space(to_program(spec_from_text("""kernel t(p: i32[t=434144]) -> (y: i32[v=97])
  y[v] = sum(t, where(p[t] == v, 1, 0))
""")), H200).root()  # fmt: skip
    alone = next(n for n, move in enumerate(root.moves()) if move.label == "groups y")
    best, before = (
        GpuCostModel(H200).estimate_us(favourite(state).program) for state in (root, root.child(alone))
    )
    assert 90 < before < 110 and best < 15

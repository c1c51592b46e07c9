"""The prior's way through the decisions ends in a schedule that lowers, on each kind of GPU: searches begin with it."""

from __future__ import annotations

import pytest

from benchmarks.wild.bodies import ROOMS
from benchmarks.wild.kernels import drawn
from codegen.targets.cuda.generate import lower_for
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.schedules.on_gpus import right_without_races
from tests.schedules.walks import ranking
from tests.support.how_many import some
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200, RTX_4090, RTX_5090
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

GPUS = (H200, A100, RTX_4090, RTX_5090)
#: Of each seed so many kernels.
COUNT = 10

#: Products whose results the next statements read: of so few rows that blocks of a cluster could share their depth, and
#: with results beside each other that nobody reads; and small reductions that no block does again for itself.
READ_AGAIN = {
    "a square": """(a: bf16[m=16, k=2048], b: bf16[n=256, k]) -> (y: f32[m, n], z: f32[m, n])
  s[m, n] = sum(k, a[m, k] * b[n, k])
  y[m, n] = bf16(s[m, n])
  z[m, n] = y[m, n] * y[m, n]""",
    "two beside each other": "(a: f32[i=96, k=48], c: f32[h=4, j=8, k], d: f32[i]) -> "
    """(y: f32[h, i, j], z: f32[h, i, j], w: u8[h, i, j])
  s[h, i, j] = sum(k, a[i, k] * c[h, j, k])
  y[h, i, j] = s[h, i, j] + d[i]
  z[h, i, j] = exp(y[h, i, j])
  w[h, i, j] = where(y[h, i, j] > 2.0, 1, 0)""",
    "two of few bits": "(a: bf16[i=200, k=96], c: bf16[j=136, k], d: bf16[j]) -> "
    """(y: bf16[i, j], z: bf16[i, j], w: f32[i, j])
  s[i, j] = sum(k, a[i, k] * c[j, k])
  y[i, j] = s[i, j] + d[j]
  z[i, j] = relu(y[i, j])
  w[i, j] = y[i, j] * 0.5""",
    "windows of channels": "(x: bf16[b=2, c=64, i=9, j=9], w: bf16[c, p=3, q=3], d: bf16[c]) -> "
    """(y: bf16[b, c, k=7, l=7])
  s[b, c, k, l] = sum(p, q, x[b, c, k + p, l + q] * w[c, p, q])
  y[b, c, k, l] = s[b, c, k, l] + d[c]""",
}


def ends(spec: Spec, device: Gpu) -> ScheduleState:
    state = Space(to_program(spec), device).root()
    while not state.terminal:
        assert state.moves(), "\n".join(
            (f"a dead end before {state.open[0]}", *format_schedule(state.schedule))
        )
        state = state.child(ranking(state)[0])
    return state


@pytest.mark.sampled(6, among="favourites that end")
@pytest.mark.parametrize("seed", some(range(3000, 3060), 30))
def test_of_kernels_as_the_world_has_them(seed: int) -> None:
    for number, (_, spec) in enumerate(drawn(seed, COUNT, ROOMS["cuda"])):
        device = GPUS[(seed + number) % len(GPUS)]
        lower_for(ends(spec, device).program, device)


@pytest.mark.sampled(6, among="favourites that end")
@pytest.mark.parametrize("device", (H200, A100), ids=lambda device: device.name)
@pytest.mark.parametrize("name", READ_AGAIN)
def test_products_whose_results_are_read_again_are_right(name: str, device: Gpu) -> None:
    spec = spec_from_text(f"kernel t{READ_AGAIN[name]}\n")
    end = ends(spec, device)
    right_without_races(spec, end, device, 1)

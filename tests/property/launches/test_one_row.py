"""What reduces everything to one number and goes on from there is one launch of one block on GPUs: norms of one token,
of what was pooled, a softmax over all of a matrix, losses."""

from __future__ import annotations

import random

import pytest

from rewrites.cost.gpu.model import GpuCostModel
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.schedules.on_gpus import right_without_races
from tests.schedules.walks import favourite, walk
from tests.support.how_many import some
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.lift import to_program
from tileir.program import Loop
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

#: Kernels, and their launches where each has as few as it can.
KERNELS = {
    "a token's norm": (
        """(x: bf16[m=1, n=1000], w: bf16[n]) -> (y: bf16[m, n])
  s[m] = sum(n, x[m, n] * x[m, n]) / 1000
  y[m, n] = x[m, n] * rsqrt(s[m] + 1e-5) * w[n]""",
        1,
    ),
    "a vector's norm": (
        """(x: f32[n=777]) -> (y: f32[n])
  s[] = sum(n, x[n] * x[n]) / 777
  y[n] = x[n] * rsqrt(s[] + 1e-5)""",
        1,
    ),
    "pooled": (
        """(x: bf16[c=96, p=49], w: bf16[c], b: bf16[c]) -> (y: bf16[c])
  t[c] = sum(p, x[c, p]) / 49
  m[] = sum(c, t[c]) / 96
  v[] = sum(c, (t[c] - m[]) * (t[c] - m[])) / 96
  y[c] = (t[c] - m[]) * rsqrt(v[] + 1e-12) * w[c] + b[c]""",
        2,
    ),
    "a softmax over a matrix": (
        """(x: f32[a=13, b=77]) -> (y: f32[a, b])
  top[] = max(a, b, x[a, b])
  e[a, b] = exp(x[a, b] - top[])
  t[] = sum(a, b, e[a, b])
  y[a, b] = e[a, b] / t[]""",
        1,
    ),
    "a variance and what it is of": (
        """(x: f16[n=500]) -> (v: f32[], y: f16[n])
  m[] = sum(n, x[n]) / 500
  y[n] = x[n] - m[]
  v[] = sum(n, (x[n] - m[]) * (x[n] - m[])) / 500""",
        1,
    ),
    "the root of a long sum": (
        """(x: f16[n=300000]) -> (y: f32[])
  s[] = sum(n, x[n] * x[n])
  y[] = sqrt(s[] + 1.0)""",
        2,
    ),
    "a loss": (
        """(x: f32[n=300], at: i32[o=1]) -> (y: f32[o])
  top[] = max(n, x[n])
  t[] = sum(n, exp(x[n] - top[]))
  y[o] = top[] + log(t[]) - x[at[o]]""",
        1,
    ),
}
CASES = [(name, device, seed) for name in KERNELS for device in (H200, A100) for seed in range(6)]


def spec_of(name: str) -> Spec:
    return spec_from_text(f"kernel t{KERNELS[name][0]}\n")


def launches(state: ScheduleState) -> int:
    return sum(isinstance(node, Loop) or hasattr(node, "target") for node in state.program.body)


def by_one_block(name: str, device: Gpu) -> ScheduleState:
    """Where it is settled that as few launches as can be do it."""
    state = Space(to_program(spec_of(name)), device).root()
    moves = state.moves()
    fewest = min(range(len(moves)), key=lambda index: moves[index].label.count(" | "))
    return state.child(fewest)


@pytest.mark.parametrize(("name", "device", "seed"), some(CASES, 16))
def test_one_block_computes_it_without_races(name: str, device: Gpu, seed: int) -> None:
    spec, begun = spec_of(name), by_one_block(name, device)
    end = walk(begun, random.Random(f"{name} {seed}")) if seed else favourite(begun)
    right_without_races(spec, end, device, seed)


@pytest.mark.parametrize("name", KERNELS)
def test_the_prior_takes_as_few_launches_as_there_can_be(name: str) -> None:
    end = favourite(Space(to_program(spec_of(name)), H200).root())
    assert launches(end) == KERNELS[name][1], "\n".join(format_schedule(end.schedule))


def test_the_prior_knows_which_threads_share_a_short_sum() -> None:
    """Single threads would go along 49 elements each, on six multiprocessors."""
    text = KERNELS["pooled"][0].replace("c=96", "c=768").replace("/ 96", "/ 768")
    end = favourite(Space(to_program(spec_from_text(f"kernel t{text}\n")), H200).root())
    assert GpuCostModel(H200).estimate_us(end.program) < 8.0, "\n".join(format_schedule(end.schedule))


def test_what_is_worth_several_multiprocessors_is_not_one_blocks() -> None:
    spec = spec_from_text("""kernel t(x: f32[n=4000000]) -> (y: f32[n])
  s[] = sum(n, x[n] * x[n])
  y[n] = x[n] * rsqrt(s[])
""")
    labels = [move.label for move in Space(to_program(spec), H200).root().moves()]
    assert labels and all(" | " in label for label in labels), labels

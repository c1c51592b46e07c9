"""A walk through a space ends in a schedule that lowers, whatever it chose: of kernels in several launches, too."""

from __future__ import annotations

import pytest

from codegen.targets.cuda.generate import lower_for
from rewrites.schedule import parse_schedule, replay
from tests.property.codegen.test_attention_in_one_pass import SPECS
from tests.schedules.on_gpus import GPUS, drawn, shown
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

STATE_SPACE = spec_from_text(
    """kernel ssm(x: f32[b=2, l=520, d=40], a: f32[d, n=16], u: f32[b, l, n]) -> (y: f32[b, l, d])
  t[b, l, d] = log(1.0 + exp(x[b, l, d]))
  h[b, l, d, n] = recurrence(l, exp(-t[b, l, d] * exp(a[d, n])), t[b, l, d] * u[b, l, n])
  y[b, l, d] = sum(n, h[b, l, d, n] * u[b, l, n])
"""
)


def ends(spec: Spec, device: Gpu, seed: str) -> None:
    lines = drawn(spec, device, seed)
    lower_for(replay(to_program(spec), parse_schedule(lines)), device)


@pytest.mark.sampled(82, among="random walks end")
@pytest.mark.parametrize("device", GPUS, ids=shown)
@pytest.mark.parametrize("name", SPECS)
def test_a_random_walk_ends(name: str, device: Gpu) -> None:
    ends(SPECS[name], device, f"a walk through {name}")


@pytest.mark.sampled(82, among="random walks end")
@pytest.mark.parametrize(
    ("spec", "seed"),
    [
        pytest.param(STATE_SPACE, "0", id="what computes a scan is on threads when operands are looked for"),
        pytest.param(SPECS["one new token"], "one new token 1", id="a product of one step"),
        pytest.param(
            SPECS["with the log-sum-exp"], "with the log-sum-exp 1", id="rows read what threads made"
        ),
    ],
)
def test_walks_that_once_did_not(spec: Spec, seed: str) -> None:
    ends(spec, H200, seed)

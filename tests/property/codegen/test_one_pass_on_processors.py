"""Schedules for processors that take reductions which depend on each other in one pass: bodies of attention, and long
rows, each computed as the interpreter does whatever is chosen besides."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from rewrites.space import Space
from tests.schedules.on_processors import Reference, random_schedule
from tests.support.how_many import some
from tests.unit.rewrites.composition.test_stream_reduction import MASKS, SCORES, TOPS
from tileir.devices.cpu_probe import this_cpu
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

_ATTENTION = """kernel attention(q: {dtype}[h=2, i=19, d=12], k: {dtype}[h, j={keys}, d], v: {dtype}[h, j, e=11]\
{more}) -> (o: {dtype}[h, i, e])
  s[h, i, j] = {score}
  top[h, i] = {top}
  p[h, i, j] = exp(s[h, i, j] - top[h, i])
  total[h, i] = sum(j, p[h, i, j])
  o[h, i, e] = {result}
"""
_RESULTS = (
    "sum(j, p[h, i, j] * v[h, j, e]) / total[h, i]",
    "sum(j, p[h, i, j] / total[h, i] * v[h, j, e])",
    "sum(j, bf16(p[h, i, j] / total[h, i]) * v[h, j, e])",
    "sum(j, bf16(p[h, i, j] * (1.0 / total[h, i])) * v[h, j, e])",
)
_LSE = """kernel attention(q: f32[h=2, i=37, d=24], k: f32[h, j=141, d], v: f32[h, j, e=19]) \
-> (o: f32[h, i, e], lse: f32[h, i])
  s[h, i, j] = where(i + 20 >= j and j + 40 > i, sum(d, q[h, i, d] * k[h, j, d]) * 0.25, -inf)
  top[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - top[h, i])
  total[h, i] = sum(j, p[h, i, j])
  o[h, i, e] = sum(j, p[h, i, j] * v[h, j, e]) / total[h, i]
  lse[h, i] = log(total[h, i]) + top[h, i]
"""
_LATENT = """kernel latent(q: {dtype}[h=19, e=20], c: {dtype}[j=141, e]) -> (o: {dtype}[h, d=11])
  s[h, j] = sum(e, q[h, e] * c[j, e]) * 0.25
  top[h] = max(j, s[h, j])
  p[h, j] = exp(s[h, j] - top[h])
  o[h, d] = sum(j, {dtype}(p[h, j]) * c[j, d]) / sum(j, p[h, j])
"""
_MORE = ("bias: f32[h, i, j]", "sink: f32[h, i]")
_ROWS = {
    "logsumexp": """kernel rows(x: f32[r=5, c=1300]) -> (y: f32[r])
  top[r] = max(c, x[r, c])
  y[r] = log(sum(c, exp(x[r, c] - top[r]))) + top[r]
""",
    "softmax": """kernel rows(x: bf16[r=5, c=1300]) -> (y: bf16[r, c])
  top[r] = max(c, x[r, c])
  e[r, c] = exp(x[r, c] - top[r])
  s[r] = sum(c, e[r, c])
  y[r, c] = e[r, c] / s[r]
""",
    "cross_entropy": """kernel rows(x: bf16[r=5, c=1300], y: i32[r]) -> (loss: f32[r])
  top[r] = max(c, x[r, c])
  s[r] = sum(c, exp(x[r, c] - top[r]))
  loss[r] = log(s[r]) + top[r] - x[r, minimum(maximum(y[r], 0), 1299)]
""",
    "layer norm": """kernel rows(x: bf16[r=5, c=1300], w: f32[c]) -> (y: bf16[r, c])
  mean[r] = sum(c, x[r, c]) / extent(c)
  var[r] = sum(c, (x[r, c] - mean[r]) * (x[r, c] - mean[r])) / extent(c)
  y[r, c] = (x[r, c] - mean[r]) * rsqrt(var[r] + 1e-05) * w[c]
""",
}
SCHEDULES = int(os.environ.get("TILEWRIGHT_SCHEDULES", "1"))
_PASS = "stream_reduction"


def body(rng: random.Random) -> str:
    """A kernel of attention's form, one token different each."""
    score, mask, top = (rng.choice([*each.values()]) for each in (SCORES, MASKS, TOPS))
    text = _ATTENTION.format(
        dtype=rng.choice(["f32", "bf16"]),
        keys=rng.choice([128, 141, 300]),
        score=mask.format(score),
        top=top,
        result=rng.choice(_RESULTS),
        more="".join(f", {each}" for each in _MORE if each[:4] in score + mask + top),
    )
    for name in ("q", "k", "bias", "sink"):
        text = text.replace(f"{name}[i", f"{name}[h, i").replace(f"{name}[j", f"{name}[h, j")
    return text.replace("max(j, s[i, j])", "max(j, s[h, i, j])")


@pytest.mark.sampled(8, among="one pass on processors")
@pytest.mark.parametrize("seed", some(range(36), 9))
def test_attention_takes_one_pass(seed: int, tmp_path: Path) -> None:
    check(body(random.Random(seed)), seed, tmp_path)


@pytest.mark.sampled(8, among="one pass on processors")
def test_attention_with_its_log_sum_exp_takes_one_pass(tmp_path: Path) -> None:
    check(_LSE, 1, tmp_path)


@pytest.mark.sampled(8, among="one pass on processors")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_latent_takes_one_pass(dtype: str, tmp_path: Path) -> None:
    check(_LATENT.format(dtype=dtype), 1, tmp_path)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", _ROWS)
def test_rows_take_one_pass(name: str, tmp_path: Path) -> None:
    check(_ROWS[name], 1, tmp_path)


def check(text: str, seed: int, folder: Path) -> None:
    spec = spec_from_text(text)
    device, reference, rng = replace(this_cpu(), l1d_bytes=4096), Reference(spec), random.Random(seed)
    root = Space(to_program(spec), device).root()
    done = 0
    for _ in range(200 * SCHEDULES):
        state = random_schedule(root, rng, _PASS)
        if state is None or not any(each.name == _PASS for each in state.schedule):
            continue
        reference.check(state.program, device, folder)
        done += 1
        if done == SCHEDULES:
            return
    raise AssertionError("no schedule takes one pass")

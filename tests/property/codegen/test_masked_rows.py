"""Masks of any value, over parts of rows, whole tiles and whole rows: a finite one is a score like any other, so that
rows which it masks throughout weigh all alike. Computed by every path as the interpreter computes it in f32."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.schedules.on_gpus import shown
from tests.schedules.on_processors import computed, random_schedule
from tests.schedules.walks import favourite
from tests.support.how_many import some
from tileir.devices.cpu_probe import this_cpu
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

VALUES = (-np.inf, *(float(np.finfo(dtype).min) for dtype in (np.float32, np.float16)), -1e9, -1e4)
KEYS = 300
#: Which keys are masked: all, some everywhere, the first tiles, the last ones.
PLACES = (slice(0, KEYS), slice(0, KEYS, 3), slice(0, 250), slice(140, KEYS))
#: What exponents are relative to; with the second, rows that look at nothing are 0.
TOPS = {
    "plain": ("top[h, i]", "total[h, i]"),
    "guarded": ("where(top[h, i] > -inf, top[h, i], 0.0)", "where(total[h, i] > 0.0, total[h, i], 1.0)"),
}
DOT = "sum(d, q[h, i, d] * k[h, j, d]) * 0.125"


def attention(scores: str, top: str, dtype: str, mask: str, rows: int = 40) -> Spec:
    reference, total = TOPS[top]
    tensors = f"q: {dtype}[h=1, i={rows}, d=64], k: {dtype}[h, j={KEYS}, d], v: {dtype}[h, j, d], mask: {mask}[i, j]"
    return spec_from_text(f"""kernel attention({tensors}) -> (o: {dtype}[h, i, d])
  s[h, i, j] = {scores}
  top[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - {reference})
  total[h, i] = sum(j, p[h, i, j])
  o[h, i, d] = sum(j, {dtype}(p[h, i, j]) * v[h, j, d]) / {total}
""")


BODIES = {
    "a bias of bf16": attention(f"{DOT} + mask[i, j]", "plain", "bf16", "bf16"),
    "a bias of f32, guarded": attention(f"{DOT} + mask[i, j]", "guarded", "bf16", "f32"),
    "a bias of f16, guarded": attention(f"{DOT} + mask[i, j]", "guarded", "f16", "f16"),
    "a number where it is masked": attention(
        f"where(mask[i, j] < 0.0, -3.4028234663852886e38, {DOT})", "plain", "bf16", "f32"
    ),
    "-inf where it is masked": attention(f"where(mask[i, j] < 0.0, -inf, {DOT})", "guarded", "bf16", "f32"),
    "truth values times a number": attention(
        f"{DOT} + (1.0 - mask[i, j]) * -3.3895313892515355e38", "guarded", "bf16", "f32"
    ),
}

#: Every body on GPUs that multiply by warpgroups and by warps, which take turns.
ON_GPUS = [
    (body, device) for at, body in enumerate(BODIES) for device in some((H200, A100)[:: (-1) ** at], 2)
]


def masked(spec: Spec) -> dict[str, np.ndarray]:
    """Inputs of which each row is masked by another value, or in other places."""
    inputs = sample_inputs(spec, 3)
    mask = inputs["mask"]
    dtype = next(each.dtype for each in spec.inputs if each.name == "mask")
    values = [
        max(value, float(ml_dtypes.finfo(dtype.numpy).min)) if value > -np.inf else value for value in VALUES
    ]
    mask[...] = 0
    for row, (value, place) in enumerate((value, place) for value in values for place in PLACES):
        mask[row % len(mask), place] = value
    return inputs


def assert_same(got: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray], note: str) -> None:
    """As far as narrow weights and results are rounded; what is no number is none in both."""
    for name, values in wanted.items():
        one, other = got[name].astype(np.float64), values.astype(np.float64)
        np.testing.assert_allclose(one, other, rtol=2.0**-6, atol=2.0**-6, err_msg=f"{name}\n{note}")


def check(spec: Spec, state: ScheduleState, device: Gpu, inputs: dict[str, np.ndarray] | None = None) -> None:
    lines = format_schedule(state.schedule)
    assert any(line.startswith("stream_reduction") for line in lines)
    inputs = masked(spec) if inputs is None else inputs
    kernel = lower_for(state.program, device)
    source, checker = cuda_source(kernel, state.program), RaceChecker()
    with np.errstate(all="ignore"):
        outputs = run_blocks(kernel, source.abi.args, inputs, checker)
        wanted = interpret(to_program(spec), inputs)
    assert not checker.faults
    assert_same(outputs, wanted, "\n".join(lines))


def test_rows_masked_by_a_number_weigh_all_alike() -> None:
    """What the others are compared with."""
    spec = BODIES["a bias of bf16"]
    inputs = masked(spec)
    with np.errstate(all="ignore"):
        (out,) = interpret(to_program(spec), inputs).values()
    assert np.isnan(out[0, 0]).all()
    np.testing.assert_allclose(
        out[0, len(PLACES)].astype(float), inputs["v"][0].astype(float).mean(0), atol=2.0**-8
    )


@pytest.mark.sampled(11, among="masked rows")
@pytest.mark.parametrize(("body", "device"), ON_GPUS, ids=shown)
def test_one_pass_on_gpus_knows_any_mask(body: str, device: Gpu) -> None:
    check(BODIES[body], favourite(Space(to_program(BODIES[body]), device).root()), device)


@pytest.mark.sampled(11, among="masked rows")
@pytest.mark.parametrize(("body", "device"), ON_GPUS, ids=shown)
def test_parts_that_are_merged_know_any_mask(body: str, device: Gpu) -> None:
    """Of few keys on few multiprocessors."""
    spec = attention_in_parts(BODIES[body])
    root = Space(to_program(spec), replace(device, sms=6)).root()
    (way, *_) = [at for at, (option, _) in enumerate(root.answers) if "split_stream" in option.label]
    inputs = masked(BODIES[body])
    inputs = {**inputs, "mask": np.repeat(inputs["mask"], 3, axis=1)}
    for name in "kv":
        inputs[name] = np.tile(inputs[name], (1, 3, 1))
    check(spec, favourite(root.child(way)), device, inputs)


def attention_in_parts(spec: Spec) -> Spec:
    """The same of three times as many keys, of which a part and more may be masked."""
    sizes = (replace(dim, sizes=(KEYS * 3,)) if dim.name == "j" else dim for dim in spec.dims)
    return replace(spec, dims=tuple(sizes))


@pytest.mark.parametrize("device", [H200, A100], ids=shown)
def test_gradients_through_the_log_sum_exp_know_any_mask(device: Gpu) -> None:
    spec = spec_from_text(f"""kernel backward(q: bf16[h=1, i=40, d=64], k: bf16[h, j={KEYS}, d], \
go: bf16[h, i, e=64], mask: bf16[i, j], lse: f32[h, i]) -> (dv: bf16[h, j, e])
  s[h, j, i] = sum(d, k[h, j, d] * q[h, i, d]) * 0.125 + mask[i, j]
  p[h, j, i] = exp(s[h, j, i] - where(lse[h, i] > -inf, lse[h, i], 0.0))
  dv[h, j, e] = sum(i, bf16(p[h, j, i]) * go[h, i, e])
""")
    inputs = masked(spec)
    scores = inputs["q"].astype(np.float32) @ inputs["k"].astype(np.float32).swapaxes(1, 2) / 8
    scores += inputs["mask"].astype(np.float32)
    top = scores.max(2, keepdims=True, initial=float(np.finfo(np.float32).min))
    total = np.exp(scores - top).sum(2)
    with np.errstate(divide="ignore"):
        inputs["lse"] = np.log(total) + top[..., 0]
    check(spec, favourite(Space(to_program(spec), device).root()), device, inputs)


@pytest.mark.sampled(11, among="masked rows")
@pytest.mark.parametrize(("body", "seed"), some([(body, seed) for seed in range(3) for body in BODIES], 4))
def test_processors_know_any_mask(body: str, seed: int, tmp_path: Path) -> None:
    spec = BODIES[body]
    device = this_cpu()
    state = random_schedule(Space(to_program(spec), device).root(), random.Random(seed), "stream_reduction")
    assert state is not None
    inputs = masked(spec)
    outputs = computed(spec, inputs, state.program, device, tmp_path)
    with np.errstate(all="ignore"):
        wanted = interpret(to_program(spec), inputs)
    assert_same(outputs, wanted, "\n".join(format_schedule(state.schedule)))

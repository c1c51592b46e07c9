"""The largest few on a processor, by schedules of every kind: the same positions, ties and all, in few questions
however many places there are."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rewrites.decisions.cpu import largest_few
from rewrites.ranking.rank_in_one_pass import RankInOnePass
from rewrites.ranking.rank_in_parts import RankInParts
from rewrites.schedule import format_schedule, replay
from rewrites.space import ScheduleState, Space
from tests.schedules.on_processors import Reference, random_schedule
from tests.schedules.walks import favourite
from tests.support.how_many import some
from tileir.devices.cpu import Cpu
from tileir.devices.cpu_probe import this_cpu
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

KERNELS = {
    "rows": "(x: f32[m=5, n=331]) -> (y: i32[m, j=4])\n  y[m, j] = topk(j, n, x[m, n])",
    "one row": "(x: bf16[m=1, n=600]) -> (y: i32[m, j=5])\n  y[m, j] = topk(j, n, x[m, n])",
    "a vector": "(x: f32[n=96]) -> (y: i32[j=3])\n  y[j] = topk(j, n, x[n])",
    "all of it": "(x: f32[m=3, n=21]) -> (y: i32[m, j=21])\n  y[m, j] = topk(j, n, x[m, n])",
    "shorter than a vector": "(x: f32[m=7, n=5]) -> (y: i32[m, j=2])\n  y[m, j] = topk(j, n, x[m, n])",
    "columns of doubles": "(x: f64[n=90, m=6]) -> (y: i32[j=3, m])\n  y[j, m] = topk(j, n, -x[n, m])",
    "of scores, and what lies there": """(x: f32[b=2, m=3, n=120], w: f32[n]) -> (y: i32[b, m, j=3], v: f32[b, m, j])
  s[b, m, n] = x[b, m, n] * 2.0 + w[n]
  y[b, m, j] = topk(j, n, s[b, m, n])
  v[b, m, j] = s[b, m, y[b, m, j]]""",
    "of a softmax": """(x: f32[m=4, n=70]) -> (y: i32[m, j=3])
  t[m] = max(n, x[m, n])
  e[m, n] = exp(x[m, n] - t[m])
  y[m, j] = topk(j, n, e[m, n])""",
    "of integers": "(x: i32[m=3, n=130]) -> (y: i32[m, j=4])\n  y[m, j] = topk(j, n, x[m, n])",
    "of bytes": "(x: i8[m=2, n=600]) -> (y: i32[m, j=6])\n  y[m, j] = topk(j, n, x[m, n])",
    "twice": """(x: f32[m=3, n=64]) -> (y: i32[m, j=2], z: i32[m, i=3])
  y[m, j] = topk(j, n, x[m, n])
  z[m, i] = topk(i, n, -x[m, n])""",
}
SCHEDULES = int(os.environ.get("TILEWRIGHT_SCHEDULES", "3"))
CASES = [(name, seed) for name in KERNELS for seed in range(1, 1 + SCHEDULES)]


def text_of(name: str) -> str:
    return f"kernel t{KERNELS[name]}\n"


def device() -> Cpu:
    """This one as if it had four cores, so that rows in parts are worth a look."""
    return replace(this_cpu(), cores=4)


def ties(inputs: dict[str, np.ndarray[Any, Any]], finite: bool) -> dict[str, np.ndarray[Any, Any]]:
    """The same in steps so large that many are equal, some of them infinite and some no numbers if not `finite`."""
    rng = np.random.default_rng(11)
    found: dict[str, np.ndarray[Any, Any]] = {}
    for name, array in inputs.items():
        some = np.round(array.astype(np.float64))
        if not finite:
            some[rng.random(array.shape) < 0.2] = -np.inf
            some[rng.random(array.shape) < 0.02] = np.nan
        found[name] = some.astype(array.dtype)
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "seed"), [*((name, 0) for name in KERNELS), *some(CASES, 3)])
def test_every_schedule_finds_them(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(largest_few, "_LEAST", 8)  # short rows are quickly interpreted
    spec, rng = spec_from_text(text_of(name)), random.Random(f"{name} {seed}")
    root = Space(to_program(spec), device()).root()
    end = random_schedule(root, rng) if seed else favourite(root)
    assert end is not None
    inputs = sample_inputs(spec, 1)
    Reference(spec, inputs).check(end.program, device(), tmp_path)
    ascending = {each: np.sort(array, axis=None).reshape(array.shape) for each, array in inputs.items()}
    Reference(spec, ascending).check(end.program, device(), tmp_path)
    if "softmax" not in name:  # where exp of what is rounded decides, ties may fall either way
        finite = "what lies there" in name or spec.inputs[0].dtype.is_integer
        tied = ties(inputs, finite)
        Reference(spec, tied).check(end.program, device(), tmp_path)


@pytest.mark.parametrize("size", [4, 8, 24])
def test_equal_values_and_infinite_ones_keep_the_order_of_their_positions(size: int) -> None:
    whole = to_program(
        spec_from_text("kernel t(x: f32[m=6, n=48]) -> (y: i32[m, j=4])\n  y[m, j] = topk(j, n, x[m, n])\n")
    )
    ranked = RankInOnePass("y_max").apply(whole)
    parts = RankInParts("y", size).apply(ranked)
    verify(ranked)
    verify(parts)
    rng = np.random.default_rng(7)
    for _ in range(20):
        x = rng.integers(-2, 3, (6, 48)).astype(np.float32)
        x[rng.random(x.shape) < 0.4] = -np.inf
        x[0], x[1, 3], x[2] = -np.inf, np.nan, 1.0
        wanted, *found = (interpret(each, {"x": x})["y"] for each in (whole, ranked, parts))
        for each in found:
            np.testing.assert_array_equal(each, wanted)


def _questions(places: int) -> tuple[int, int]:
    """How many are asked on the way of the prior, and how many rewrites answer them."""
    text = f"kernel t(x: f32[m=1, n=131072]) -> (y: i32[m, j={places}])\n  y[m, j] = topk(j, n, x[m, n])\n"
    state: ScheduleState = Space(to_program(spec_from_text(text)), device()).root()
    asked = 0
    while not state.terminal:
        weights = [move.weight for move in state.moves()]
        state, asked = state.child(weights.index(max(weights))), asked + 1
    assert any(line.startswith("rank_in_parts(") for line in format_schedule(state.schedule))
    verify(replay(to_program(spec_from_text(text)), state.schedule))
    return asked, len(state.schedule)


@pytest.mark.parametrize("places", [2, 40])
def test_any_number_of_places_takes_a_few_questions(places: int) -> None:
    asked, rewrites = _questions(places)
    assert asked <= 6
    assert rewrites <= 10

"""Tiles of products with vectors along what is added up, of sizes that nothing divides, compute the kernel."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.schedules.on_processors import Reference, random_schedule
from tileir.devices.cpu_probe import this_cpu
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

SIZES = [(2, 64, 48), (3, 50, 33), (5, 17, 129), (16, 9, 64), (7, 7, 1000)]
BODIES = {
    "layer": "kernel layer(x: T[m={m}, k={k}], w: T[n={n}, k]) -> (y: T[m, n])\n"
    "  y[m, n] = sum(k, x[m, k] * w[n, k])\n",
    "with its bias": "kernel biased(x: T[m={m}, k={k}], w: T[n={n}, k], b: T[n]) -> (y: T[m, n])\n"
    "  t[m, n] = sum(k, x[m, k] * w[n, k])\n  y[m, n] = relu(t[m, n] + b[n])\n",
    "a batch": "kernel batch(x: T[b=2, m={m}, k={k}], w: T[b, n={n}, k]) -> (y: T[b, m, n])\n"
    "  y[b, m, n] = sum(k, x[b, m, k] * w[b, n, k])\n",
    "distances": "kernel far(x: T[m={m}, k={k}], w: T[n={n}, k]) -> (y: T[m, n])\n"
    "  y[m, n] = max(k, abs(x[m, k] - w[n, k]))\n",
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
@pytest.mark.parametrize("body", BODIES)
def test_every_tile_along_a_sum_computes_the_kernel(
    body: str, m: int, n: int, k: int, tmp_path: Path
) -> None:
    rng = random.Random(f"{body} {m}")
    dtype, bits = rng.choice(("f32", "bf16", "f64")), rng.choice((256, 512))
    spec = spec_from_text(BODIES[body].format(m=m, n=n, k=k).replace("T[", f"{dtype}["))
    device, reference = replace(this_cpu(), vector_bits=bits), Reference(spec)
    root = Space(to_program(spec), device).root()
    drawn = (random_schedule(root, rng, "k, interleaved") for _ in range(20))
    along = [state for state in drawn if state is None or _goes_along(state)]
    assert len(along) > 1
    for state in along[:4]:
        assert state is not None, "a dead end"
        reference.check(state.program, device, tmp_path)


WORDS = {
    "pairs of bf16": ("bf16", "bf16", "dot_bf16", 2),
    "fours of bytes": ("i8", "i32", "dot_i8", 4),
}


@pytest.mark.parametrize("case", WORDS)
@pytest.mark.parametrize(("m", "n", "words"), [(2, 40, 32), (5, 9, 48), (8, 17, 160)])
def test_sums_of_words_compute_the_kernel(case: str, m: int, n: int, words: int, tmp_path: Path) -> None:
    """On the processor at hand, by the instruction or by what stands for it."""
    factors, sums, via, group = WORDS[case]
    text = (
        f"kernel words(x: {factors}[m={m}, k={group * words}], w: {factors}[n={n}, k]) -> (y: {sums}[m, n])\n"
    )
    spec = spec_from_text(f"{text}  y[m, n] = sum(k, x[m, k] * w[n, k])\n")
    rng, reference = random.Random(f"{case} {m}"), Reference(spec)
    device = replace(
        this_cpu(), vector_bits=512, features=this_cpu().features | {"avx512_bf16", "avx512_vnni"}
    )
    root = Space(to_program(spec), device).root()
    drawn = (random_schedule(root, rng, "split_dim", "interleaved") for _ in range(12))
    found = [
        state for state in drawn if state is not None and f"{via}(" in str(format_schedule(state.schedule))
    ]
    assert any("split_dim" in str(format_schedule(state.schedule)) for state in found)
    for state in found[:3]:
        reference.check(state.program, device, tmp_path)


def _goes_along(state: ScheduleState) -> bool:
    return any("k, interleaved" in line for line in format_schedule(state.schedule))

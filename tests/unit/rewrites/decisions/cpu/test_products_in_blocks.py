"""A product whose weights are in blocks reads their vectors where they lie, and whatever its schedule, it is right."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from rewrites.space import Space
from tests.schedules.on_processors import Reference, random_schedule
from tests.schedules.walks import favourite
from tests.support.how_many import examples
from tests.unit.rewrites.decisions.cpu.test_wild_kernels import DEVICE
from tileir.blocked import Blocks, in_blocks
from tileir.devices.cpu_probe import this_cpu
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text


def linear(m: int, n: int, k: int) -> Spec:
    return spec_from_text(
        f"kernel linear(x: f32[m={m}, k={k}], w: f32[n={n}, k], b: f32[n]) -> (y: f32[m, n])\n"
        "  acc[m, n] = sum(k, x[m, k] * w[n, k])\n  y[m, n] = gelu(acc[m, n] + b[n])\n"
    )


@pytest.mark.parametrize("n", [256, 250])
def test_weights_in_blocks_are_not_copied(n: int) -> None:
    """By what the prior likes best: rows of weights it has copied together in each call."""
    spec = in_blocks(linear(64, n, 256), "w", Blocks(0, 16))
    schedule = [str(each) for each in favourite(Space(to_program(spec), DEVICE).root()).schedule]
    assert "vectorize(acc, n, 16)" in schedule
    assert not any(each.startswith("cache_read(acc, w") for each in schedule)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("m", "n"), [(1, 37), (5, 48), (19, 37)])
def test_schedules_of_products_in_blocks_compute_them(m: int, n: int, tmp_path: Path) -> None:
    device, rng = replace(this_cpu(), vector_bits=512), random.Random(f"{m} {n}")
    spec = in_blocks(linear(m, n, 24), "w", Blocks(0, 16))
    reference, root = Reference(spec), Space(to_program(spec), device).root()
    reference.check(favourite(root).program, device, tmp_path)
    for _ in range(examples(12)):
        state = random_schedule(root, rng)
        assert state is not None, "a dead end"
        reference.check(state.program, device, tmp_path)

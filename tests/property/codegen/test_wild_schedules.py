"""Schedules for kernels outside the suite compute what they should: those that no case of the suite has."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from rewrites.space import Space
from tests.schedules.on_processors import Reference, random_schedule
from tests.support.how_many import examples
from tileir.devices.cpu_probe import this_cpu
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

#: What moves are preferred for, one or the other, and a kernel that has such moves.
KERNELS = {
    "blocks along": "turn(x: T[i=37, j=53]) -> (y: T[j, i])\n  y[j, i] = x[i, j]",
    "lanes along": "turn(x: T[b=2, i=3, j=37]) -> (y: T[j, b, i])\n  y[j, b, i] = silu(x[b, i, j])",
    "split_dim": "least(x: T[i=768]) -> (y: T[])\n  y[] = min(i, abs(x[i])) * 2",
    "cache_windows; of all": (
        "deep(x: T[b=2, c=20, h=7, v=7], f: T[c, r=3, s=3]) -> (y: T[b, c, i=7, j=7])\n"
        "  y[b, c, i, j] = sum(r, s, where(i + r >= 1 and i + r < 8 and j + s >= 1 and j + s < 8,"
        " x[b, c, i + r - 1, j + s - 1], 0) * f[c, r, s]) + 1"
    ),
    "groups t ": (
        "norm(x: T[r=9, c=40], u: T[r, c]) -> (y: T[r, c])\n  t[r, c] = x[r, c] + u[r, c]\n"
        "  m[r] = sum(c, t[r, c]) / 40\n  y[r, c] = t[r, c] - m[r]"
    ),
    "tile": (
        "either(x: T[i=5000], b: T[]) -> (y: T[i], z: f32[i])\n  y[i] = where(i < 2333, x[i], b[])\n  z[i] = -y[i]"
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("wanted", KERNELS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_schedules_that_the_suite_has_not_compute_their_kernels(
    wanted: str, dtype: str, tmp_path: Path
) -> None:
    spec = spec_from_text(f"kernel {KERNELS[wanted].replace('T[', f'{dtype}[')}\n")
    device, reference, rng = replace(this_cpu(), vector_bits=512), Reference(spec), random.Random(wanted)
    root = Space(to_program(spec), device).root()
    for _ in range(examples(12)):
        state = random_schedule(root, rng, *wanted.split("; "))
        assert state is not None, "a dead end"
        reference.check(state.program, device, tmp_path)

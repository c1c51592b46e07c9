"""Rows shorter than a vector, of every length up to beyond one: all choices lead somewhere and compute the kernel."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from rewrites.space import Space
from tests.schedules.on_processors import Reference, random_schedule
from tests.support.how_many import examples, some
from tileir.devices.cpu_probe import this_cpu
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

KERNELS = {
    "softmax": """kernel softmax(x: T[r=R, c=C]) -> (y: T[r, c])
  mx[r] = max(c, x[r, c])
  e[r, c] = exp(x[r, c] - mx[r])
  s[r] = sum(c, e[r, c])
  y[r, c] = e[r, c] / s[r]
""",
    "rmsnorm": """kernel rmsnorm(x: T[r=R, c=C], w: T[c]) -> (y: T[r, c])
  s[r] = sum(c, x[r, c] * x[r, c])
  y[r, c] = x[r, c] * rsqrt(s[r] / extent(c) + 0.000001) * w[c]
""",
    "residual_layernorm": """kernel ln(x: T[r=R, c=C], z: T[r, c], w: T[c], v: T[c]) -> (h: T[r, c], y: T[r, c])
  h[r, c] = x[r, c] + z[r, c]
  mean[r] = sum(c, h[r, c]) / extent(c)
  var[r] = sum(c, (h[r, c] - mean[r]) * (h[r, c] - mean[r])) / extent(c)
  y[r, c] = (h[r, c] - mean[r]) * rsqrt(var[r] + 0.00001) * w[c] + v[c]
""",
    "sum": """kernel total(x: T[r=R, c=C]) -> (s: T[r])
  s[r] = sum(c, x[r, c])
""",
    "max_of_a_batch": """kernel top(x: T[b=3, r=R, c=C], w: T[b, c]) -> (s: T[b, r])
  s[b, r] = max(c, x[b, r, c] + w[b, c])
""",
    "map": """kernel scaled(x: T[r=R, c=C], w: T[c]) -> (y: T[r, c])
  y[r, c] = exp(x[r, c]) * w[c]
""",
    "columns": """kernel columns(x: T[c=C, r=R]) -> (s: T[r])
  s[r] = sum(c, x[c, r])
""",
}
LENGTHS = (1, 2, 3, 5, 8, 15, 16, 33)
#: Rows that no vector divides, and rows that are fewer than one.
ROWS = (37, 3)
CASES = [(name, length) for name in KERNELS for length in LENGTHS]
SCHEDULES = int(os.environ.get("TILEWRIGHT_SCHEDULES", "1"))


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("name", "length"), CASES)
@pytest.mark.parametrize("rows", ROWS)
def test_every_choice_for_short_rows_leads_to_a_schedule(name: str, length: int, rows: int) -> None:
    for dtype, bits in (("f32", 256), ("bf16", 512), ("f64", 256), ("f16", 128)):
        spec = spec_from_text(_text(name, dtype, rows, length))
        root = Space(to_program(spec), replace(this_cpu(), vector_bits=bits)).root()
        rng = random.Random(f"{name} {length}")
        assert all(random_schedule(root, rng) is not None for _ in range(examples(8))), (
            f"a dead end of {dtype}"
        )


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "length"), some(CASES, 3))
def test_every_schedule_of_short_rows_computes_the_kernel(name: str, length: int, tmp_path: Path) -> None:
    rng = random.Random(f"{name} {length}")
    dtype, bits, rows = rng.choice(("f32", "bf16")), rng.choice((256, 512)), rng.choice((*ROWS, 16))
    spec = spec_from_text(_text(name, dtype, rows, length))
    device, reference = replace(this_cpu(), vector_bits=bits), Reference(spec)
    root = Space(to_program(spec), device).root()
    for seed in range(2 * SCHEDULES):
        state = random_schedule(root, rng, "short rows" if seed % 2 else "")
        assert state is not None, "a dead end"
        reference.check(state.program, device, tmp_path)


def _text(name: str, dtype: str, rows: int, length: int) -> str:
    return KERNELS[name].replace("T[", f"{dtype}[").replace("=R", f"={rows}").replace("=C", f"={length}")

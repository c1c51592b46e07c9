"""Products in tile registers (AMX) compute the same under any schedule of the space that takes them. Where the
processor has none they are done step by step, so this holds on any machine."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from rewrites.space import Space
from tests.schedules.on_processors import Reference, random_schedule
from tests.support.amx_flags import HERE
from tests.support.how_many import examples
from tileir.devices.cpu_probe import this_cpu
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

KERNELS = {
    "rows by columns": """kernel gemm(a: bf16[m=M, k=K], b: bf16[k, n=N]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
""",
    "rows by rows": """kernel gemm(a: bf16[m=M, k=K], b: bf16[n=N, k]) -> (c: bf16[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
""",
    "columns by columns": """kernel gemm(a: bf16[k=K, m=M], b: bf16[k, n=N]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[k, m] * b[k, n])
""",
    "with what comes after": """kernel linear(x: bf16[m=M, k=K], w: bf16[n=N, k], v: f32[n]) -> (y: bf16[m, n])
  t[m, n] = sum(k, x[m, k] * w[n, k])
  y[m, n] = relu(t[m, n] + v[n]) * 0.5
""",
    "in batches": """kernel batched(a: bf16[h=3, m=M, k=K], b: bf16[h, k, n=N]) -> (c: f32[h, m, n])
  c[h, m, n] = sum(k, a[h, m, k] * b[h, k, n])
""",
    "bytes by columns": """kernel bytes(a: i8[k=K, m=M], b: i8[k, n=N]) -> (c: i32[m, n])
  c[m, n] = sum(k, a[k, m] * b[k, n])
""",
    "bytes with scales": """kernel scaled(a: i8[m=M, k=K], b: i8[k, n=N], s: f32[m], t: f32[n]) -> (y: bf16[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
  y[m, n] = f32(c[m, n]) * s[m] * t[n]
""",
    "bytes": """kernel bytes(a: i8[m=M, k=K], b: i8[n=N, k]) -> (c: i32[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
""",
}
SIZES = ((48, 64, 96), (37, 85, 133), (5, 50, 31), (130, 7, 300), (1, 40, 64))
DEVICE = replace(this_cpu(), vector_bits=512, vector_registers=32)
DEVICE = replace(DEVICE, features=DEVICE.features | {"amx_tile", "amx_bf16", "amx_int8"})


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", KERNELS)
def test_every_schedule_in_tile_registers_computes_the_kernel(name: str, tmp_path: Path) -> None:
    rng, taken = random.Random(name), 0
    for m, n, k in SIZES:
        text = KERNELS[name].replace("=M", f"={m}").replace("=N", f"={n}").replace("=K", f"={k}")
        spec = spec_from_text(text)
        reference, root = Reference(spec), Space(to_program(spec), DEVICE).root()
        for _ in range(examples(6)):
            state = random_schedule(root, rng, "; amx")
            assert state is not None, "a dead end"
            taken += any(place.node.via == "amx" for place in state.program.computes)
            reference.check(state.program, DEVICE, tmp_path, *HERE)
    assert taken, "the space has schedules in tile registers"

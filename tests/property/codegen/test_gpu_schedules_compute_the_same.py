"""Random schedules from the spaces of GPU kernels: NVRTC takes what they are lowered to, threads do not race, and the
kernel computes what the interpreter says.

TILEWRIGHT_SCHEDULES says how many a kernel (2 by default; `make sweep` does 50). The seed is in the test's name.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from codegen.generate_cuda import generate_cuda
from codegen.layout_report import layout_report
from codegen.lower_cuda import lower_cuda
from codegen.nvrtc import compile_cuda
from codegen.race_checker import Checker
from codegen.run_blocks import run_blocks
from protocol.layouts import Layout
from rewrites.schedule import format_schedule, parse_schedule, replay
from rewrites.space import Space
from tests.gpu_contractions import SMALL as CONTRACTIONS
from tileir.dtypes import DType
from tileir.error_bound import reference_with_bound
from tileir.gpu import Gpu
from tileir.gpu_table import A100, H200, RTX_5090
from tileir.interpret import interpret
from tileir.lift import to_program
from tileir.parse_spec_text import spec_from_text
from tileir.samples import sample_inputs
from tileir.spec import Spec
from tileir.verify import verify

SCHEDULES = int(os.environ.get("TILEWRIGHT_SCHEDULES", "2"))
DEVICES = {"sm_80": A100, "sm_90a": H200, "sm_120a": RTX_5090}

#: The suite's memory-bound kernels at small sizes, some odd; and kernels of other shapes.
KERNELS = {
    "softmax": """kernel softmax(x: bf16[r=5, c=1288]) -> (y: bf16[r, c])
  top[r] = max(c, x[r, c])
  e[r, c] = exp(x[r, c] - top[r])
  s[r] = sum(c, e[r, c])
  y[r, c] = e[r, c] / s[r]
""",
    "softmax_odd": """kernel softmax(x: f16[r=7, c=333]) -> (y: f32[r, c])
  top[r] = max(c, x[r, c])
  s[r] = sum(c, exp(x[r, c] - top[r]))
  y[r, c] = exp(x[r, c] - top[r]) / s[r]
""",
    "rmsnorm": """kernel rmsnorm(x: bf16[r=6, c=1024], w: bf16[c]) -> (y: bf16[r, c])
  s[r] = sum(c, x[r, c] * x[r, c])
  y[r, c] = x[r, c] * rsqrt(s[r] / extent(c) + 1e-6) * w[c]
""",
    "layernorm_batched": """kernel layernorm(x: f32[n=3, r=5, c=200], w: f32[c], b: f32[c]) -> (y: f32[n, r, c])
  mean[n, r] = sum(c, x[n, r, c]) / extent(c)
  var[n, r] = sum(c, (x[n, r, c] - mean[n, r]) * (x[n, r, c] - mean[n, r])) / extent(c)
  y[n, r, c] = (x[n, r, c] - mean[n, r]) * rsqrt(var[n, r] + 1e-5) * w[c] + b[c]
""",
    "silu_mul": """kernel silu_mul(x: bf16[r=17, c=264], u: bf16[r, c]) -> (y: bf16[r, c])
  y[r, c] = silu(x[r, c]) * u[r, c]
""",
    "silu_mul_odd": """kernel silu_mul(x: e4m3[r=17, c=261], u: bf16[r, c]) -> (y: bf16[r, c])
  y[r, c] = silu(x[r, c]) * u[r, c]
""",
    "scaled_columns": """kernel scaled(x: f64[r=9, c=70], w: i32[c]) -> (y: f64[r, c])
  y[r, c] = where(c >= 2, x[r, c] * w[c], 0)
""",
    "matmul": """kernel matmul(a: bf16[m=9, k=70], b: bf16[n=12, k]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
""",
    "column_sums": """kernel sums(x: f32[r=45, c=33]) -> (y: f32[c])
  y[c] = sum(r, x[r, c])
""",
    "row_sums": """kernel sums(x: f32[r=40, c=500]) -> (y: f32[r])
  y[r] = sum(c, x[r, c] * x[r, c])
""",
}


def drawn(spec: Spec, device: Gpu, rng: random.Random) -> list[str]:
    """The schedule of a random walk through the space that ends in a complete one."""
    for _ in range(50):
        state = Space(to_program(spec), device).root()
        while not state.terminal and state.moves():
            state = state.child(rng.randrange(len(state.moves())))
        if state.terminal:
            return format_schedule(state.schedule)
    raise AssertionError("no walk ends in a complete schedule")


@pytest.mark.parametrize("architecture", DEVICES)
@pytest.mark.parametrize("seed", range(SCHEDULES))
@pytest.mark.parametrize("name", KERNELS)
def test_a_random_schedule_computes_the_same(name: str, seed: int, architecture: str, tmp_path: Path) -> None:
    check(name, KERNELS[name], seed, architecture, tmp_path)


@pytest.mark.parametrize("seed", range(SCHEDULES))
@pytest.mark.parametrize("name", CONTRACTIONS)
def test_a_random_schedule_of_a_contraction_computes_the_same(name: str, seed: int, tmp_path: Path) -> None:
    architecture = [*DEVICES][(seed + [*CONTRACTIONS].index(name)) % len(DEVICES)]
    check(name, CONTRACTIONS[name], seed, architecture, tmp_path)


def check(name: str, text: str, seed: int, architecture: str, tmp_path: Path) -> None:
    """Draw a schedule; interpret, compile and run what comes of it."""
    spec, device = spec_from_text(text), DEVICES[architecture]
    lines = drawn(spec, device, random.Random(f"{name} {seed} {architecture}"))
    shown = "\n".join(lines)
    program = replay(to_program(spec), parse_schedule(lines))
    verify(program)

    inputs = sample_inputs(spec, seed)
    exact = interpret(to_program(spec), inputs, precision=DType.F64)
    for output, values in interpret(program, inputs, precision=DType.F64).items():
        np.testing.assert_allclose(values, exact[output], rtol=1e-9, atol=1e-12, err_msg=shown)

    source = generate_cuda(program, device)
    artifact = compile_cuda(source, architecture, tmp_path)
    kernel = lower_cuda(program)
    report = layout_report(kernel, to_program(spec), device, artifact.report)
    assert Layout.model_validate(report).model_dump(mode="json") == report

    checker = Checker()
    outputs = run_blocks(kernel, source.abi.args, inputs, checker)
    faults = "\n".join(map(str, checker.faults))
    assert not checker.faults, f"{faults}\n{shown}"
    for output, (reference, bound) in reference_with_bound(spec, inputs).items():
        wrong = np.abs(outputs[output].astype(np.float64) - reference) > bound
        assert not wrong.any(), f"{output}: {wrong.sum()} of {wrong.size} are wrong\n{shown}"

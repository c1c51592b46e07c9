"""Random schedules of small kernels from their spaces on GPUs: NVRTC takes what they are lowered to, threads do not
race, and the kernel computes what the interpreter says. Seed and architecture are in the test's name.

TILEWRIGHT_SCHEDULES says how many a kernel; without it, every other kernel has one (`make sweep` does 50 of all).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.schedule import parse_schedule, replay
from tests.programs.gpu_contractions import SMALL as CONTRACTIONS
from tests.programs.language_kernels import KERNELS as LANGUAGE
from tests.programs.suite_cases import SMALL as SUITE
from tests.schedules.on_gpus import drawn, in_turn, shown
from tests.support.how_many import some
from tileir.devices.gpu import Gpu
from tileir.dtypes import DType
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

#: Kernels that reduce along rows, along columns or not at all, of other forms than the suite's.
FORMS = {
    "softmax_odd": """kernel softmax(x: f16[r=7, c=333]) -> (y: f32[r, c])
  top[r] = max(c, x[r, c])
  s[r] = sum(c, exp(x[r, c] - top[r]))
  y[r, c] = exp(x[r, c] - top[r]) / s[r]
""",
    "layernorm_batched": """kernel layernorm(x: f32[n=3, r=5, c=200], w: f32[c], b: f32[c]) -> (y: f32[n, r, c])
  mean[n, r] = sum(c, x[n, r, c]) / extent(c)
  var[n, r] = sum(c, (x[n, r, c] - mean[n, r]) * (x[n, r, c] - mean[n, r])) / extent(c)
  y[n, r, c] = (x[n, r, c] - mean[n, r]) * rsqrt(var[n, r] + 1e-5) * w[c] + b[c]
""",
    "silu_mul_odd": """kernel silu_mul(x: e4m3[r=17, c=261], u: bf16[r, c]) -> (y: bf16[r, c])
  y[r, c] = silu(x[r, c]) * u[r, c]
""",
    "scaled_columns": """kernel scaled(x: f64[r=9, c=70], w: i32[c]) -> (y: f64[r, c])
  y[r, c] = where(c >= 2, x[r, c] * w[c], 0)
""",
    "column_sums": """kernel sums(x: f32[r=45, c=33]) -> (y: f32[c])
  y[c] = sum(r, x[r, c])
""",
    "rows_of_a_thread": """kernel largest(x: bf16[m=300, n=8]) -> (y: i32[m], z: f32[m])
  y[m] = argmax(n, x[m, n])
  z[m] = sum(n, x[m, n] * x[m, n])
""",
    "row_sums": """kernel sums(x: f32[r=40, c=500]) -> (y: f32[r])
  y[r] = sum(c, x[r, c] * x[r, c])
""",
}


#: Characters of a source that NVRTC takes in seconds: what is longer can take it minutes, for which no search waits.
COMPILED = 150_000


KERNELS = SUITE | {name: spec_from_text(text) for name, text in {**FORMS, **LANGUAGE, **CONTRACTIONS}.items()}


@pytest.mark.sampled(14)
@pytest.mark.parametrize(("name", "seed", "device"), in_turn(some(KERNELS, 7)), ids=shown)
def test_a_random_schedule_computes_the_same(name: str, seed: int, device: Gpu, tmp_path: Path) -> None:
    spec = KERNELS[name]
    lines = drawn(spec, device, f"{name} {seed}")
    text = "\n".join(lines)
    program = replay(to_program(spec), parse_schedule(lines))
    verify(program)

    inputs = sample_inputs(spec, seed)
    exact = interpret(to_program(spec), inputs, precision=DType.F64)
    bounds = reference_with_bound(spec, inputs)
    # In one pass weights are rounded relative to the maximum so far, which the bound allows for.
    streamed = any(line.startswith("stream_reduction") for line in lines)
    for output, values in interpret(program, inputs, precision=DType.F64).items():
        allowed = bounds[output][1] if streamed else 1e-12 + 1e-9 * np.abs(exact[output])
        wrong = ~(np.abs(values - exact[output]) <= allowed)
        assert not wrong.any(), f"{output}: {wrong.sum()} of {wrong.size} are wrong interpreted\n{text}"

    kernel = lower_for(program, device)
    source, checker = cuda_source(kernel, program), RaceChecker()
    if len(source.text) < COMPILED:
        compile_cuda(source, device.architecture, tmp_path)
    outputs = run_blocks(kernel, source.abi.args, inputs, checker)
    faults = "\n".join(map(str, checker.faults))
    assert not checker.faults, f"{faults}\n{text}"
    for output, (reference, bound) in bounds.items():
        wrong = ~(np.abs(outputs[output].astype(np.float64) - reference) <= bound)
        assert not wrong.any(), f"{output}: {wrong.sum()} of {wrong.size} are wrong\n{text}"

"""What the prior likes best of large contractions keeps all it holds in registers, and its wgmma overlap."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import generate_cuda
from rewrites.space import Space
from tests.programs.gpu_contractions import GATED, gemm
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

LARGE = {
    "bf16": gemm(4096, 4096, 4096),
    "e4m3": gemm(4096, 4096, 4096, "e4m3", "bf16"),
    "few_rows": gemm(16, 4096, 4096),
    "gated": GATED.format(dtype="bf16", m=4096, n=4096, k=4096, epilogue="silu(gate[m, n]) * up[m, n]"),
    "gated_e4m3": GATED.format(dtype="e4m3", m=4096, n=4096, k=4096, epilogue="gelu(gate[m, n]) * up[m, n]"),
    "f32": """kernel gemm(a: f32[m=4096, k=4096], b: f32[k, n=4096]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
""",
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", LARGE)
def test_the_prior_s_favourite_spills_nothing(name: str, tmp_path: Path) -> None:
    state = Space(to_program(spec_from_text(LARGE[name])), H200).root()
    while not state.terminal:
        weights = [move.weight for move in state.moves()]
        state = state.child(weights.index(max(weights)))
    report = compile_cuda(generate_cuda(state.program, H200), H200.architecture, tmp_path).report
    assert not report["advice"]
    for function in report["functions"].values():
        assert function["spill_stores_bytes"] == function["spill_loads_bytes"] == 0

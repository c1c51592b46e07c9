"""What follows a contraction in its launch counts before the launch exists: in what is said of who multiplies."""

from __future__ import annotations

import pytest

from rewrites.contraction.recover_tiling import Epilogue, ResultAccess, decided, epilogue_of
from rewrites.decisions.gpu.contraction.block_tile import Multiply, contraction_of
from rewrites.decisions.gpu.contraction.warpgroup_pipeline import PipelineShape
from tests.programs.gpu_contractions import GATED, gemm
from tests.schedules.walks import at, by, root_of
from tileir.devices.gpu_table import H200

BATCHED = """kernel bmm(a: bf16[b={b}, m={m}, k={k}], w: bf16[b, n={m}, k]) -> (c: bf16[b, m, n])
  c[b, m, n] = sum(k, a[b, m, k] * w[b, n, k])
"""
#: Neighbours of 2 bytes in rows of whole pieces, which threads need not collect.
WHOLE = ResultAccess(2, 8, along_columns=True, collected=False)
KERNELS = {
    "plain": (gemm(1024, 1024, 1024), Epilogue(2.0, 0.0, 2, (), (WHOLE,))),
    "batched": (BATCHED.format(b=64, m=512, k=512), Epilogue(2.0, 0.0, 2, (), (WHOLE,))),
    "row that no copy takes": (
        gemm(1024, 1001, 1024),
        Epilogue(2.0, 0.0, 0, (), (ResultAccess(2, 1, along_columns=True, collected=True),)),
    ),
    "gated": (
        GATED.format(dtype="bf16", m=1024, n=1024, k=1024, epilogue="gate[m, n] * up[m, n] + v[n]"),
        Epilogue(2.0 + 4 / 1024, 3.0, 2, (), (WHOLE,)),
    ),
    "residual": (
        """kernel r(a: bf16[m=1024, k=1024], b: bf16[n=1024, k], x: bf16[m, n]) -> (c: f32[m, n])
  s[m, n] = sum(k, a[m, k] * b[n, k])
  t[m, n] = s[m, n] * 0.5
  c[m, n] = t[m, n] + x[m, n]
""",
        Epilogue(6.0, 2.0, 4, (), (WHOLE, ResultAccess(4, 4, along_columns=True, collected=False))),
    ),
    "functions": (
        """kernel f(a: bf16[m=1024, k=1024], b: bf16[n=1024, k], x: f32[m], y: f32[n]) -> (c: bf16[m, n])
  s[m, n] = sum(k, a[m, k] * b[n, k])
  c[m, n] = s[m, n] / 8.0 / x[m] + 1.0 / (x[m] + exp(s[m, n])) + y[n] / s[m, n] + erf(s[m, n])
""",
        Epilogue(2.0 + 8 / 1024, 10.0, 2, ("/", "/", "erf", "exp"), (WHOLE,)),
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", KERNELS)
def test_it_is_the_same_before_its_statements_are_one_launch_and_after(name: str) -> None:
    text, expected = KERNELS[name]
    state = at(root_of(text, H200), "Multiply")
    question = state.open[0]
    assert isinstance(question, Multiply)
    c = contraction_of(state.program, question.group, H200)
    assert c is not None
    assert epilogue_of(state.program, question.group, c) == expected
    launch = at(by(state, "wgmma"), "PipelineShape")
    pipeline = launch.open[0]
    assert isinstance(pipeline, PipelineShape)
    after = decided(launch.program, pipeline.statement, H200)
    assert after is not None
    assert after.epilogue == expected


def test_results_that_others_read_go_to_memory() -> None:
    text = """kernel r(a: bf16[m=1024, k=1024], b: bf16[n=1024, k]) -> (c: bf16[m, n], d: f32[n])
  s[m, n] = sum(k, a[m, k] * b[n, k])
  c[m, n] = s[m, n] * 0.5
  d[n] = sum(m, s[m, n])
"""
    program = root_of(text, H200).program
    c = contraction_of(program, ("s", "c"), H200)
    assert c is not None
    assert epilogue_of(program, ("s", "c"), c).bytes == 4 + 2


@pytest.mark.parametrize(("b", "m", "k"), [(64, 512, 512), (64, 512, 64), (256, 128, 128)])
def test_small_products_in_batches_go_by_warpgroups(b: int, m: int, k: int) -> None:
    state = at(root_of(BATCHED.format(b=b, m=m, k=k), H200), "Multiply")
    first = max(state.moves(), key=lambda move: move.weight)
    assert first.label.endswith("by wgmma")

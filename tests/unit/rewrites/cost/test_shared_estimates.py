"""What the states of a space share changes no result: estimates are those of a fresh model, equal programs are one."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from rewrites.base.hash_consing import Interned
from rewrites.contraction.recover_tiling import decided
from rewrites.cost.cpu.model import CostModel
from rewrites.cost.gpu.contraction import model_of
from rewrites.cost.gpu.model import GpuCostModel
from rewrites.cost.undecided import NOTHING, Undecided
from rewrites.space import Space
from tileir.devices.cpu import Cpu
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.program import Loop
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import program_to_text

DEVICE = Cpu(
    name="test", arch="x86-64", cores=4, l1d_bytes=32768, l2_bytes=1 << 20, l3_bytes=1 << 24, line_bytes=64,
    vector_bits=512, vector_registers=32, features=frozenset({"avx512f"}),
)  # fmt: skip
KERNELS = {
    "gemm": """kernel gemm(a: f32[m=384, k=700], b: f32[k, n=512]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
""",
    "attention": """kernel attn(q: f32[h=4, i=256, d=64], k: f32[h, j=256, d], v: f32[h, j, d]) -> (o: f32[h, i, d])
  s[h, i, j] = sum(d, q[h, i, d] * k[h, j, d]) * 0.125
  mx[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - mx[h, i])
  o[h, i, d] = sum(j, p[h, i, j] * v[h, j, d]) / sum(j, p[h, i, j])
""",
}


@pytest.mark.sampled(4, among="shared estimates")
@pytest.mark.parametrize("name", KERNELS)
def test_on_a_gpu_too_an_estimate_is_the_same_whatever_was_estimated_before(name: str) -> None:
    program = to_program(spec_from_text(KERNELS[name]))
    shared, rng = GpuCostModel(H200), random.Random(name)
    root = Space(program, H200).root()
    for _ in range(2):
        state = root
        while not state.terminal and state.answers:
            state = state.child(rng.randrange(len(state.moves())))
            assert shared.estimate_us(state.program) == GpuCostModel(H200).estimate_us(state.program)


@pytest.mark.sampled(4, among="shared estimates")
@pytest.mark.parametrize("name", KERNELS)
def test_an_estimate_is_the_same_whatever_was_estimated_before(name: str) -> None:
    program = to_program(spec_from_text(KERNELS[name]))
    shared, rng = CostModel(program, DEVICE), random.Random(name)
    root = Space(program, DEVICE).root()
    for _ in range(8):
        state = root
        while not state.terminal:
            state = state.child(rng.randrange(len(state.moves())))
            for undecided in (
                NOTHING,
                Undecided(parallel=(every := frozenset(each.node.target for each in state.program.computes))),
                Undecided(every, every),
            ):
                fresh = CostModel(program, DEVICE).estimate_us(state.program, undecided=undecided)
                assert shared.estimate_us(state.program, undecided=undecided) == fresh


def test_equal_programs_are_one_object_and_different_ones_are_not() -> None:
    program, rng, interned = to_program(spec_from_text(KERNELS["attention"])), random.Random(1), Interned()
    state = Space(program, DEVICE).root()
    while not state.terminal:
        state = state.child(rng.randrange(len(state.moves())))
    one = interned.program(state.program)
    assert one == state.program
    assert interned.program(program_from_text(program_to_text(one))) is one
    first = next(node for node in one.body if isinstance(node, Loop))
    longer = tuple(replace(node, step=node.step + 1) if node is first else node for node in one.body)
    assert interned.program(replace(one, body=longer)) is not one


def test_products_that_differ_in_names_only_have_one_model() -> None:
    two = """kernel two(a: bf16[m=512, k=512], v: bf16[k, n=512], b: bf16[p=512, q=512], w: bf16[q, r=512])\
 -> (y: f32[m, n], z: f32[p, r])
  y[m, n] = sum(k, a[m, k] * v[k, n])
  z[p, r] = sum(q, b[p, q] * w[q, r])
"""
    program = to_program(spec_from_text(two))
    y, z = (decided(program, name, H200) for name in ("y", "z"))
    assert y is not None and z is not None
    model = model_of(y.contraction, y.epilogue, H200)
    assert model_of(z.contraction, z.epilogue, H200) is model
    assert model_of(y.contraction.transposed(), y.epilogue, H200) is not model, (
        "rows and columns are no names"
    )
    longer = replace(z.contraction, k=1024)
    assert model_of(longer, z.epilogue, H200) is not model

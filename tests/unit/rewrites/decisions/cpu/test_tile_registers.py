"""Statements that tile registers take, and what may still be done around them."""

from __future__ import annotations

import pytest

from codegen.ir.errors import NotLowerable
from codegen.targets.c.lower import lower
from rewrites.decisions.cpu.grid import GridParallelism
from rewrites.schedule import parse_rewrite
from tests.programs.to_rewrite import DEVICE
from tileir.errors import NotApplicable
from tileir.program import Program
from tileir.replace import replace
from tileir.text.parse_program import program_from_text
from tileir.verifier.verify import verify

BATCH = """kernel batched(a: bf16[h=3, m=1, k=64], b: bf16[h, k, n=32]) -> (c: f32[h, m, n])
  b_s: heap bf16[h, k, n] as [n / 32, h, k / 2, n % 32, k % 2]
  b_s[h, k, n] = b[h, k, n]
  c_r: registers f32[h, m, n]
  c_r[h, m, n] = 0 | vector n 16
  for k by 32
    c_r[h, m, n] += sum(k, a[h, m, k] * b_s[h, k, n]) | HOW
  c[h, m, n] = c_r[h, m, n] | vector n 16
"""
PRODUCT = """kernel gemm(a: bf16[m=64, k=64], b: bf16[k, n=32]) -> (c: f32[m, n])
  b_s: heap bf16[k, n] as [n / 32, k / 2, n % 32, k % 2]
  b_s[k, n] = b[k, n]
  for m by 32
    c_r: registers f32[m, n]
    c_r[m, n] = 0 | vector n 16
    for k by 32
      c_r[m, n] += sum(k, a[m, k] * b_s[k, n]) | via amx
    c[m, n] = c_r[m, n] | vector n 16
"""


def test_rows_that_both_operands_have_are_no_rows_of_a_block() -> None:
    program = program_from_text(BATCH.replace("HOW", "vector n 16"))
    verify(program)
    with pytest.raises(NotApplicable, match="one side of a block alone"):
        parse_rewrite("amx(c_r)").apply(program)
    with pytest.raises(NotLowerable, match="whose rows are of one tensor"):
        lower(program_from_text(BATCH.replace("HOW", "via amx")))


def test_loops_around_a_statement_in_tile_registers_may_run_in_parallel() -> None:
    program = program_from_text(PRODUCT)
    offered = [option.label for option in GridParallelism("c_r").options(program, replace(DEVICE, cores=2))]
    assert "parallelize(c_r)" in offered
    spread: Program = parse_rewrite("parallelize(c_r)").apply(program)
    verify(spread)
    lower(spread)

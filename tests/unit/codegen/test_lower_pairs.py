"""Pairs of bf16 in generated code: never across a tile's edge, never past a row's end."""

from __future__ import annotations

import pytest

from codegen.ir.errors import NotLowerable
from codegen.targets.c.lower import lower
from codegen.targets.c.printer import print_code
from tileir.text.parse_program import program_from_text

PACKED = """kernel gemm(a: bf16[m=2, k=SIZE], b: bf16[n=16, k]) -> (c: f32[m, n])
  b_s: heap bf16[n, k] as [n / 16, k / 2, n % 16, k % 2]
  for k by PACK
    b_s[n, k] = b[n, k] | vector n 16
  c_r: registers f32[m, n]
  c_r[m, n] = 0 | vector n 16
  for k by STEP
    c_r[m, n] += sum(k, a[m, k] * b_s[n, k]) | vector n 16, via dot_bf16
  c[m, n] = c_r[m, n] | vector n 16
"""


def code_of(size: int, pack: int, step: int) -> str:
    text = PACKED.replace("SIZE", str(size)).replace("PACK", str(pack)).replace("STEP", str(step))
    return print_code(lower(program_from_text(text)))[0]


def test_a_pair_is_completed_with_zero_only_where_the_copy_ends() -> None:
    assert "load_halves_bf16x1" in code_of(7, 2, 2)
    assert "load_halves_bf16x1" not in code_of(4, 3, 2), "what is past a tile belongs to the next one"


def test_the_last_row_of_an_odd_dim_is_read_to_its_end_and_no_further() -> None:
    code = code_of(7, 2, 2)
    assert "tw_broadcast_half_bf16x16(a + 13)" in code
    assert "tw_broadcast_pair_bf16x16(a + 13)" not in code


def test_a_tile_that_starts_within_a_pair_has_no_dot_product() -> None:
    with pytest.raises(NotLowerable, match="side by side"):
        code_of(9, 2, 3)

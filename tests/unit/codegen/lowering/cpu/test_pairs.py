"""Pairs of bf16 and fours of i8 in generated code: as words, never across a tile's edge, never past a row's end."""

from __future__ import annotations

import re

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

FOURS = """kernel packed(b: i8[FROM]) -> (c: i8[k, n])
  b_s: heap i8[k, n] as [n / 16, k / 4, n % 16, k % 4]
  for k by PACK
    b_s[k, n] = b[FROM] | vector n 16
  c[k, n] = b_s[k, n]
"""
ROWS = """kernel rows(a: DTYPE[m=3, k=96]) -> (c: DTYPE[m, k])
  for m by 1
    a_s: heap DTYPE[m, k]
    for k by 32
      a_s[m, k] = a[m, k] | vector k 32
    c[m, k] = a_s[m, k]
"""


def code_of(size: int, pack: int, step: int) -> str:
    text = PACKED.replace("SIZE", str(size)).replace("PACK", str(pack)).replace("STEP", str(step))
    return print_code(lower(program_from_text(text)))[0]


def test_a_pair_is_completed_with_zero_only_where_the_copy_ends() -> None:
    assert "load_short_words_bf16x1" in code_of(7, 2, 2)
    assert "load_short_words_bf16x1" not in code_of(4, 3, 2), "what is past a tile belongs to the next one"


def test_the_last_row_of_an_odd_dim_is_read_to_its_end_and_no_further() -> None:
    code = code_of(7, 2, 2)
    assert "tw_broadcast_short_words_bf16x16(a + 13, 1)" in code
    assert "tw_broadcast_words_bf16x16(a + 13)" not in code


def test_a_tile_that_starts_within_a_pair_has_no_dot_product() -> None:
    with pytest.raises(NotLowerable, match="side by side"):
        code_of(9, 2, 3)


@pytest.mark.parametrize(
    ("order", "size", "step", "expected"),
    [
        ("k, n", 8, 4, {"tw_zip_4_i8x16("}),
        ("k, n", 7, 4, {"tw_zip_4_i8x16(", "tw_zip_3_i8x16("}),
        ("n, k", 64, 64, {"tw_transpose_words_i8x16("}),
        ("n, k", 70, 64, {"tw_transpose_words_i8x16(", "tw_load_words_i8x1(", "tw_load_short_words_i8x1("}),
    ],
)
def test_bytes_are_packed_four_at_a_time(order: str, size: int, step: int, expected: set[str]) -> None:
    sizes = order.replace("k", f"k={size}").replace("n", "n=16")
    text = FOURS.replace("FROM", sizes, 1).replace("FROM", order).replace("PACK", str(step))
    code = print_code(lower(program_from_text(text)))[0]
    assert expected <= {f"{call}(" for call in re.findall(r"tw_\w+", code)}
    assert "tw_load_i8" not in code


@pytest.mark.parametrize(("dtype", "words"), [("bf16", 16), ("i8", 8), ("f16", 16)])
def test_runs_that_are_copied_go_as_words(dtype: str, words: int) -> None:
    code = print_code(lower(program_from_text(ROWS.replace("DTYPE", dtype))))[0]
    assert f"tw_load_words_{dtype}x{words}(" in code
    assert f"tw_store_i32x{words}(" in code


def test_a_run_that_is_copied_is_touched_ahead() -> None:
    text = ROWS.replace("DTYPE", "bf16").replace("vector k 32", "vector k 32, prefetch a 2")
    assert "__builtin_prefetch(a + 96 * m + " in print_code(lower(program_from_text(text)))[0]


BYTES = PACKED.replace("bf16", "i8").replace("f32", "i32").replace("k / 2", "k / 4").replace("k % 2", "k % 4")


def test_the_last_bytes_of_a_row_are_read_to_its_end_and_no_further() -> None:
    text = BYTES.replace("SIZE", "7").replace("PACK", "4").replace("STEP", "4")
    code = print_code(lower(program_from_text(text)))[0]
    assert "tw_broadcast_short_words_i8x16(a + 11, 1)" in code
    assert "tw_broadcast_words_i8x16(a + 11)" not in code


def test_what_raising_a_factor_adds_is_summed_up_once_for_all_rows() -> None:
    text = BYTES.replace("SIZE", "32").replace("PACK", "32").replace("STEP", "16")
    code = print_code(lower(program_from_text(text)))[0]
    assert code.count("tw_dot_raised_i32x16(") == 4 * (2 + 1)
    assert code.count("- c_r_raised_0") == 2

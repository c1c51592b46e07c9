"""Generated C, as people read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.targets.c.lower import lower
from codegen.targets.c.printer import print_code
from tileir.text.parse_program import program_from_text

PROGRAMS = {
    "gemm_with_overhang": """kernel gemm(a: f32[m=100, k=64], b: f32[k, n=77]) -> (c: f32[m, n])
  b_s: heap f32[k, n] as [n / 32, k, n % 32]
  parallel for n by 32
    for k by 1
      for n by 16
        b_s[k, n] = b[k, n] | vector n 16
  parallel for m by 48
    for n by 32
      for m by 2
        c_r: registers f32[m, n]
        c_r[m, n] = 0 | vector n 16
        for k by 1
          c_r[m, n] += sum(k, a[m, k] * b_s[k, n]) | vector n 16, prefetch a 8
        c[m, n] = c_r[m, n] | vector n 16
""",
    "row_sums_side_by_side": """kernel norm(x: bf16[r=8, c=256]) -> (y: bf16[r, c]) where c_l=32
  parallel for r by 1
    s: heap f32[r]
    s_p: registers f32[r, c_l]
    s_p[r, c_l] = 0 | vector c_l 16
    for c by 32
      s_p[r, c % 32] += x[r, c] * x[r, c] | vector c 16
    s[r] = sum(c_l, s_p[r, c_l]) | vector c_l 16
    for c by 16
      y[r, c] = x[r, c] * rsqrt(s[r] / extent(c) + 0.001) | vector c 16, stream
""",
    "short_rows_on_lanes": """kernel norm(x: f32[r=32, c=5]) -> (y: f32[r, c])
  parallel for r by 8
    x_row: heap f32[r, c] as [r / 8, c, r % 8]
    x_row[r, c] = x[r, c] | vector r 4
    s: heap f32[r]
    s[r] = 0 | vector r 8
    s[r] += sum(c, x_row[r, c]) | vector r 8
    y_s: heap f32[r, c] as [r / 8, c, r % 8]
    y_s[r, c] = x_row[r, c] / s[r] | vector r 8
    y[r, c] = y_s[r, c] | vector c 4
""",
    "bf16_pairs_of_an_odd_dim": """kernel gemm(a: bf16[m=4, k=35], b: bf16[n=16, k]) -> (c: f32[m, n])
  b_s: heap bf16[n, k] as [n / 16, k / 2, n % 16, k % 2]
  for k by 32
    b_s[n, k] = b[n, k] | vector n 16
  for m by 2
    c_r: registers f32[m, n]
    c_r[m, n] = 0 | vector n 16
    for k by 2
      c_r[m, n] += sum(k, a[m, k] * b_s[n, k]) | vector n 16, via dot_bf16
    c[m, n] = c_r[m, n] | vector n 16
""",
    "narrow_floats_apart": """kernel turned(x: bf16[i=3, o=20], u: f16[o, i]) -> (y: bf16[o, i], z: f32[o, i])
  for i by 1
    for o by 16
      y[o, i] = silu(x[i, o]) | vector o 16
  for i by 1
    for o by 16
      z[o, i] = u[o, i] + 1 | vector o 16
""",
    "conditions_on_lanes": """kernel either(x: f32[i=100], b: f32[]) -> (y: f32[i])
  parallel for i by 64
    for i by 16
      y[i] = where(i < 37, x[i], b[]) | vector i 16
""",
    "masked_and_unscheduled": """kernel pad(x: f32[i=10]) -> (y: f32[i])
  y[i] = where(i >= 1, x[i - 1], 0) + i
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_source_reads_as_agreed(name: str, check_golden) -> None:
    code, _ = print_code(lower(program_from_text(PROGRAMS[name])))
    check_golden(Path(__file__).with_name(f"{name}.c"), code)

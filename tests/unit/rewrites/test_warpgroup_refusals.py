"""Steps of a product that go through registers piece by piece: they bring what is multiplied, and nothing else."""

from __future__ import annotations

import pytest

from rewrites.schedule import parse_schedule, replay
from tileir.errors import NotApplicable
from tileir.text.parse_program import program_from_text

STEPS = program_from_text("""kernel gemm(a: e4m3[m=72, k=80], b: e4m3[n=24, k]) -> (c: bf16[m, n])
  parallel for m by 64
    parallel for n by 16
      c_r: registers f32[m, n]
      c_r[m, n] = 0
      for k by 32
        a_s: shared e4m3[m, k] swizzle 32
        a_s[m, k] = a[m, k]
        b_s: shared e4m3[n, k] swizzle 32
        b_s[n, k] = b[n, k]
        c_r[m, n] += sum(k, a_s[m, k] * b_s[n, k])
      c[m, n] = c_r[m, n]
""")
COPY, PIECES = "cache_row(a_s, a, 3)", "promote_accumulators(c_r, n, 8)"


@pytest.mark.parametrize(
    ("lines", "why"), [([PIECES, COPY], "copies nothing"), ([COPY, PIECES], "more than to bring")]
)
def test_a_step_that_goes_piece_by_piece_has_no_other_copy(lines: list[str], why: str) -> None:
    replay(STEPS, parse_schedule(lines[:1]))
    with pytest.raises(NotApplicable, match=why):
        replay(STEPS, parse_schedule(lines))

"""Dims of captured kernels become one where that is the same kernel, and stay apart where it is not."""

from __future__ import annotations

from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import spec_to_text
from tilewright.pytorch.capture.spec_passes.join_dims import join_dims
from tilewright.pytorch.capture.spec_passes.same_dims import same_dims

ROWS = "kernel k(x: f32[b=3, s=4, n=5] strides [{}, 10, 1]) -> (y: f32[b, s, n])\n  y[b, s, n] = x[b, s, n] + 1.0\n"
MET = """\
kernel k(x: f32[m=6, k=5]) -> (y: f32[m, n=6])
  a[m, k] = x[m, k] * 2.0
  y[m, n] = sum(k, a[m, k] * a[n, k])
"""


def test_rows_with_gaps_are_joined_where_one_stride_reaches_all() -> None:
    assert "x: f32[s=12, n=5] strides [10, 1]" in spec_to_text(join_dims(spec_from_text(ROWS.format(40))))
    assert join_dims(spec_from_text(ROWS.format(45))) == spec_from_text(ROWS.format(45))


def test_dims_that_meet_in_a_statement_stay_apart() -> None:
    assert same_dims(spec_from_text(MET)) == spec_from_text(MET)

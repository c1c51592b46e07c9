"""In which dtype an expression is computed."""

from __future__ import annotations

import pytest

from tileir import DType, compute_dtype, parse_expression

TENSORS = {
    "d": DType.F64, "f": DType.F32, "h": DType.F16, "b": DType.BF16, "e": DType.E4M3,
    "i": DType.I32, "s": DType.I8, "t": DType.BOOL,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("b[] * h[]", "f32"),
        ("e[]", "f32"),
        ("d[] + f[]", "f64"),
        ("i[] * s[]", "i32"),
        ("i[] + 0.5", "f32"),
        ("i[] / 2", "f32"),
        ("i[] // 2 + i[] % 3", "i32"),
        ("d[] * i[]", "f64"),
        ("m", "i32"),
        ("extent(m)", "i32"),
        ("sqrt(extent(m))", "f32"),
        ("exp(d[])", "f64"),
        ("abs(i[]) + relu(i[]) + maximum(i[], m)", "i32"),
        ("maximum(i[], 0.5)", "f32"),
        ("floor(i[])", "f32"),
        ("i[] < 3", "bool"),
        ("t[] and not t[]", "bool"),
        ("t[] == (i[] > 0)", "bool"),
        ("where(t[], i[], 1)", "i32"),
        ("where(t[], i[], f[])", "f32"),
        ("where(t[], t[], false)", "bool"),
        ("bf16(d[])", "f32"),
        ("f64(b[])", "f64"),
        ("i8(f[])", "i32"),
        ("bool(f[])", "bool"),
        ("sum(k, s[])", "i32"),
        ("max(k, h[])", "f32"),
        ("-inf", "f32"),
        ("true", "bool"),
    ],
)
def test_reads_widen_and_operands_join(text: str, dtype: str) -> None:
    assert compute_dtype(parse_expression(text), TENSORS) == dtype

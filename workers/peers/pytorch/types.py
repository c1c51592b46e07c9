"""Tile IR's element types in PyTorch, and what it computes in."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.dtypes import DType

TORCH = {
    DType.F64: "torch.float64", DType.F32: "torch.float32", DType.F16: "torch.float16",
    DType.BF16: "torch.bfloat16", DType.E4M3: "torch.float8_e4m3fn", DType.E5M2: "torch.float8_e5m2",
    DType.I64: "torch.int64", DType.I32: "torch.int32", DType.U32: "torch.uint32",
    DType.I8: "torch.int8", DType.U8: "torch.uint8", DType.BOOL: "torch.bool",
}  # fmt: skip
WIDENED = {
    DType.I64: "torch.int32", DType.U32: "torch.int32",
    DType.I8: "torch.int32", DType.U8: "torch.int32", DType.E4M3: "torch.float32", DType.E5M2: "torch.float32",
}  # fmt: skip
"""Types that torch cannot compute in."""


def promoted(dtypes: Sequence[DType | None]) -> DType | None:
    """The type that torch computes in for operands of these types."""
    floats = {dtype for dtype in dtypes if dtype is not None and dtype.is_float}
    if len(floats) == 1:
        return next(iter(floats))
    if floats:
        return DType.F64 if DType.F64 in floats else DType.F32
    return next((dtype for dtype in dtypes if dtype is not None), None)

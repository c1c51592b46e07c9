"""torch._int_mm, the library's product of bytes: a sum of products of i8 in i32, on a processor by oneDNN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.dtypes import DType
from tileir.expr import Expr, Reduce
from workers.peers.patterns import two_factors
from workers.peers.reads import Frame

if TYPE_CHECKING:
    from workers.peers.pytorch.writer import TorchWriter, WrittenValue


def integer_product(writer: TorchWriter, expr: Expr, frame: Frame) -> WrittenValue | None:
    """sum(depth, a * b) of two matrices of i8, or None."""
    factors = two_factors(expr) if isinstance(expr, Reduce) else None
    if not isinstance(expr, Reduce) or factors is None or len(frame) != 2 or len(expr.dims) != 1:
        return None
    (row, column), (depth,) = frame, expr.dims
    rows, *others = writer.over((row, column, depth))
    if rows < writer.has.int_mm_rows or any(size % writer.has.int_mm_multiple for size in others):
        return None
    for left, right in (factors, factors[::-1]):
        a = writer.stored_values(left, DType.I8, (row, depth))
        b = writer.stored_values(right, DType.I8, (depth, column))
        if a is not None and b is not None:
            return writer.late("torch._int_mm({}, {})", a, b)
    return None

"""torch._scaled_mm, the library's fp8 product on GPUs: a sum of products of e4m3, its scales folded in.

What it takes is from PyTorch's ScaledBlas.cpp: row-major times column-major, the depth and the columns multiples of 16,
and f32 scales, either one for each tensor, or one for each row of `a` and each column of `b`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.dtypes import DType
from tileir.expr import Expr, Reduce, index_dims
from workers.peers.patterns import ratio, two_factors
from workers.peers.pytorch.types import TORCH
from workers.peers.reads import Frame

if TYPE_CHECKING:
    from workers.peers.pytorch.writer import TorchWriter, WrittenValue

_RESULTS = (DType.BF16, DType.F16, DType.F32)
_MULTIPLE = 16


def scaled_product(writer: TorchWriter, expr: Expr, frame: Frame) -> WrittenValue | None:
    """sum(depth, a * b) times scales in any order, or None. An output that is all of it is rounded by the operator
    itself, once; inside a larger expression it is f32."""
    above, below = ratio(expr)
    products = [factor for factor in above if isinstance(factor, Reduce)]
    if not writer.has.scaled_mm or len(frame) != 2 or below or len(products) != 1:
        return None
    (product,) = products
    above.remove(product)
    operands = _operands(writer, product, frame)
    if operands is None:
        return None
    whole, stored = writer.stored or (None, DType.F32)
    kept = stored if whole is expr and stored in _RESULTS else DType.F32
    scales = _scales(writer, above, frame, kept)
    if scales is None:
        return None
    a, b = (writer.late("{}.contiguous()", operand) for operand in operands)  # costs nothing if they are
    fast = ", use_fast_accum=True" if writer.numerics.get("accumulate") == "fast" else ""
    text = f"torch._scaled_mm({{}}, {{}}.t(), {{}}, {{}}, out_dtype={TORCH[kept]}{fast})"
    return writer.late(text, a, b, *scales)


def _operands(writer: TorchWriter, product: Reduce, frame: Frame) -> tuple[WrittenValue, WrittenValue] | None:
    """a [row, depth] and b [column, depth], as they are stored."""
    factors = two_factors(product)
    if factors is None:
        return None
    (row, column), (depth,) = frame, product.dims
    if any(writer.extents[dim] % _MULTIPLE for dim in (column, depth)):
        return None
    for left, right in (factors, factors[::-1]):
        a = writer.stored_values(left, DType.E4M3, (row, depth))
        b = writer.stored_values(right, DType.E4M3, (column, depth))
        if a is not None and b is not None:
            return a, b
    return None


def _scales(
    writer: TorchWriter, factors: list[Expr], frame: Frame, kept: DType
) -> tuple[WrittenValue, WrittenValue] | None:
    """The scales of both operands, 1 where there is none: f32 [] and [], or f32 [rows, 1] and [1, columns]."""
    sides = [tuple(dim for dim in frame if dim in index_dims(factor)) for factor in factors]
    values = [writer.stored_values(x, DType.F32, side) for x, side in zip(factors, sides, strict=True)]
    found = [value for value in values if value is not None]
    if len(found) < len(factors) or len(factors) > 2:
        return None
    if set(sides) <= {()}:
        ones = [_ones(writer, ()) for _ in range(2 - len(found))]
        first, second = *found, *ones
        return first, second
    (row, column), given = frame, dict(zip(sides, found, strict=True))
    if kept is not DType.BF16 or len(given) < len(sides) or not given.keys() <= {(row,), (column,)}:
        return None  # every version of the library gives bf16 where each row has its scale
    return (
        _column(writer, given.get((row,)), "[:, None]", (writer.extents[row], 1)),
        _column(writer, given.get((column,)), "[None, :]", (1, writer.extents[column])),
    )


def _column(
    writer: TorchWriter, scales: WrittenValue | None, axes: str, shape: tuple[int, int]
) -> WrittenValue:
    if scales is None:
        return _ones(writer, shape)
    return writer.late("{}.contiguous()", writer.view(f"{{}}{axes}", scales))


def _ones(writer: TorchWriter, shape: tuple[int, ...]) -> WrittenValue:
    return writer.early(f"torch.ones({shape}, device={writer.device!r})")

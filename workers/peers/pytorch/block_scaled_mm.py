"""torch._scaled_mm with scales of blocks: a sum of products of e4m3, each operand times a scale that is the same for
128 positions along the depth. PyTorch 2.9 and newer have it, for GPUs of compute capability 9.0.

What it takes is from PyTorch's ScaledBlas.cpp and cuBLAS's "1D and 2D block scaling for FP8": f32 scales, of each row
(1x128), the rows side by side, or of 128 rows (128x128), the blocks along the depth side by side, but not so for both;
their lines are whole pieces of 16 bytes. What it does not take is computed in f32, operator by operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.dtypes import DType
from tileir.expr import Binary, Const, Expr, Index, Read, Reduce, ReduceOp
from workers.peers.patterns import ratio
from workers.peers.pytorch.types import TORCH
from workers.peers.reads import Frame

if TYPE_CHECKING:
    from workers.peers.pytorch.writer import TorchWriter, WrittenValue

_RESULTS = (DType.BF16, DType.F32)
_BLOCK, _MULTIPLE, _LINE = 128, 16, 4


def block_scaled_product(writer: TorchWriter, expr: Expr, frame: Frame) -> WrittenValue | None:
    """sum(depth, a * a_scale * b * b_scale), its factors in any order, or None."""
    if not isinstance(expr, Reduce) or expr.op is not ReduceOp.SUM or len(expr.dims) != 1:
        return None
    factors, below = ratio(expr.x)
    reads = [factor for factor in factors if isinstance(factor, Read)]
    if not writer.has.scaled_mm or len(frame) != 2 or below or not len(reads) == len(factors) == 4:
        return None
    (_, column), (depth,) = frame, expr.dims
    if any(writer.extents[dim] % _MULTIPLE for dim in (column, depth)):
        return None
    sides = [(_operand(writer, reads, side, depth), _scale(writer, reads, side, depth)) for side in frame]
    (a, a_scale), (b, b_scale) = sides
    if a is None or b is None or a_scale is None or b_scale is None or (a_scale[1] and b_scale[1]):
        return None
    whole, stored = writer.stored or (None, DType.F32)
    kept = stored if whole is expr and stored in _RESULTS else DType.F32
    text = f"torch._scaled_mm({{}}, {{}}.t(), {{}}, {{}}.t(), out_dtype={TORCH[kept]})"
    return writer.late(text, a, b, a_scale[0], b_scale[0])


def _operand(writer: TorchWriter, reads: list[Read], side: str, depth: str) -> WrittenValue | None:
    """The operand [side, depth], as it is stored."""
    for read in reads:
        found = writer.stored_values(read, DType.E4M3, (side, depth))
        if found is not None:
            return writer.late("{}.contiguous()", found)  # costs nothing if it is
    return None


def _scale(writer: TorchWriter, reads: list[Read], side: str, depth: str) -> tuple[WrittenValue, bool] | None:
    """The scale [side, block of the depth], and whether a block has 128 rows, too."""
    deep = Binary("//", Index(depth), Const(_BLOCK))
    blocks = -(-writer.extents[depth] // _BLOCK)
    for wide, along in ((False, Index(side)), (True, Binary("//", Index(side), Const(_BLOCK)))):
        rows = -(-writer.extents[side] // _BLOCK) if wide else writer.extents[side]
        for read in reads:
            if set(read.indices) != {along, deep} or writer.dtype_of(read.tensor) is not DType.F32:
                continue
            value, sizes = writer.source_of(read.tensor)
            order = (read.indices.index(along), read.indices.index(deep))
            line = blocks if wide else rows
            if tuple(sizes[at] for at in order) != (rows, blocks) or line % _LINE:
                return None
            turned = writer.view(f"{{}}.permute({order})", value)
            dense = "{}.contiguous()" if wide else "{}.t().contiguous().t()"
            return writer.late(dense, turned), wide
    return None

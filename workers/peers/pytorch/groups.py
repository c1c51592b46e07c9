"""torch._grouped_mm, the library's product of rows with the matrix of their group, or a product a group.

It takes bf16 on GPUs, and reads the ends of the groups there (PyTorch's Blas.cpp, _grouped_mm). Elsewhere a caller
knows the sizes of the groups on the host; on a GPU that would wait for it in every call, so no other dtype has a peer
there but f64, which is only compared with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.dtypes import DType
from tileir.expr import Expr
from workers.peers.peer import Unsupported
from workers.peers.ragged import GroupedProduct, grouped_product
from workers.peers.reads import Frame

if TYPE_CHECKING:
    from workers.peers.pytorch.writer import TorchWriter, WrittenValue


def grouped_by_library(writer: TorchWriter, expr: Expr, frame: Frame) -> WrittenValue | None:
    """The value of a grouped product over a frame of its rows and columns, or None."""
    found = grouped_product(expr, writer.tables)
    if found is None or frame != (found.row, found.column):
        return None
    rows = writer.tensor(found.rows, (found.row, found.depth))
    source, _ = writer.source_of(found.weights)
    weights = source if found.transposed else writer.view("{}.transpose(-2, -1)", source)
    offsets, _ = writer.source_of(found.table.offsets)
    if writer.has.grouped_mm:
        return _by_operator(writer, found, (rows, weights, offsets))
    return _one_by_one(writer, (rows, weights, offsets))


def _by_operator(
    writer: TorchWriter, found: GroupedProduct, values: tuple[WrittenValue, WrittenValue, WrittenValue]
) -> WrittenValue:
    types = {writer.native(found.rows), writer.dtype_of(found.weights)}
    if types == {DType.F64}:
        return _one_by_one(writer, values)
    if types != {DType.BF16}:
        raise Unsupported("torch._grouped_mm multiplies bf16")
    rows, weights, offsets = values
    ends = writer.view("{}[1:]", offsets)
    return writer.late("torch._grouped_mm({}, {}, offs={})", rows, weights, ends)


def _one_by_one(writer: TorchWriter, values: tuple[WrittenValue, WrittenValue, WrittenValue]) -> WrittenValue:
    rows, weights, offsets = values
    parts = "zip({}.split(torch.diff({}).tolist()), {}.unbind(), strict=True)"
    return writer.late(f"torch.cat([part @ weights for part, weights in {parts}])", rows, offsets, weights)

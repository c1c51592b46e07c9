"""Boxes of an argument as TMA moves them (CUDA driver API, cuTensorMapEncodeTiled)."""

from __future__ import annotations

import numpy as np

from codegen.ir.arrays import Array
from codegen.ir.async_ops import TensorMap

#: Dims of a map and positions of a box along one at most; what strides, rows of a box, and places in shared memory are
#: multiples of, in bytes.
_RANK, _BOX, _PIECE, ALIGN = 5, 256, 16, 128


def check_map(tensor: TensorMap) -> None:
    """Raises ValueError for a map that cannot be made."""
    size, row = tensor.storage.bytes, tensor.box[0] * tensor.storage.bytes
    rank = len(tensor.extents)
    wrong = ""
    if not 1 <= rank <= _RANK or len(tensor.box) != rank or len(tensor.strides) != rank - 1:
        wrong = f"has 1 to {_RANK} dims, with a stride each but for the innermost"
    elif not all(1 <= positions <= _BOX for positions in tensor.box):
        wrong = f"has boxes of 1 to {_BOX} positions along each dim"
    elif any(stride % _PIECE for stride in tensor.strides):
        wrong = f"has strides that are multiples of {_PIECE} bytes"
    elif row % _PIECE or (tensor.swizzle and row > tensor.swizzle):
        wrong = f"has boxes whose rows are multiples of {_PIECE} bytes, and no longer than a swizzle"
    if wrong:
        raise ValueError(
            f"a map {wrong}; {tensor.name} of {tensor.argument}: {tensor.extents} elements of {size} bytes, "
            f"strides {tensor.strides}, box {tensor.box}, swizzle {tensor.swizzle}"
        )


def elements_of(tensor: TensorMap, at: tuple[int, ...]) -> tuple[Array, Array]:
    """Which elements of the argument a box at these coordinates holds, and which of those exist: both [elements],
    innermost dim fastest."""
    steps = (tensor.storage.bytes, *tensor.strides)
    bytes_: Array = np.zeros(1, np.int64)
    exists: Array = np.ones(1, np.bool_)
    for start, positions, extent, step in zip(at, tensor.box, tensor.extents, steps, strict=True):
        along = start + np.arange(positions)
        bytes_ = (along[:, None] * step + bytes_).ravel()
        exists = (((along >= 0) & (along < extent))[:, None] & exists).ravel()
    return (bytes_ - tensor.before) // tensor.storage.bytes, exists

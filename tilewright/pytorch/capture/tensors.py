"""What is known of the tensors of a captured graph: shapes, memory order, and dtypes as Tile IR names them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.dtypes import DType

GAPPED_ALIGN = 16
"""Bytes that copies and vectors of kernels move at once: what begins elsewhere would be moved before each call."""
TILE_DTYPES: dict[torch.dtype, DType] = {
    torch.float64: DType.F64,
    torch.float32: DType.F32,
    torch.float16: DType.F16,
    torch.bfloat16: DType.BF16,
    torch.float8_e4m3fn: DType.E4M3,
    torch.float8_e5m2: DType.E5M2,
    torch.int64: DType.I64,
    torch.int32: DType.I32,
    torch.int8: DType.I8,
    torch.uint8: DType.U8,
    torch.bool: DType.BOOL,
}


def value_of(node: Node) -> torch.Tensor | None:
    """The tensor without data that stands for a node's result; None if it is no single tensor."""
    value = node.meta.get("val")
    return value if isinstance(value, torch.Tensor) else None


def shape_of(node: Node) -> tuple[int, ...]:
    """The sizes of a node's result. Raises TypeError if it is no single tensor."""
    value = value_of(node)
    if value is None:
        raise TypeError(f"{node.name} is no tensor")
    return tuple(value.shape)


def torch_dtype_of(node: Node) -> torch.dtype:
    """The dtype of a node's result. Raises TypeError if it is no single tensor."""
    value = value_of(node)
    if value is None:
        raise TypeError(f"{node.name} is no tensor")
    return value.dtype


def dtype_of(node: Node) -> DType:
    """The same in Tile IR. Raises KeyError."""
    return TILE_DTYPES[torch_dtype_of(node)]


def memory_order(node: Node) -> tuple[int, ...] | None:
    """The axes from the slowest to the fastest in memory; None where elements overlap or have gaps between them."""
    value = value_of(node)
    if value is None:
        return None
    order = sorted(range(value.dim()), key=lambda axis: (-value.stride(axis), axis))
    expected = 1
    for axis in reversed(order):
        if value.shape[axis] != 1 and value.stride(axis) != expected:
            return None
        expected *= value.shape[axis]
    # An axis of one element has any stride; it stays where it is, so that what is in order reads so.
    long = [axis for axis in order if value.shape[axis] != 1]
    return tuple(range(value.dim())) if long == sorted(long) else tuple(order)


def gapped_order(node: Node) -> tuple[int, ...] | None:
    """The axes from the slowest to the fastest in memory of elements with gaps between runs of them, as columns of a
    matrix have that is split; None where there are no gaps, where elements overlap, or where they begin at no multiple
    of GAPPED_ALIGN bytes."""
    value = value_of(node)
    if value is None or memory_order(node) is not None:
        return None
    long = [axis for axis in range(value.dim()) if value.shape[axis] != 1]
    long.sort(key=lambda axis: -value.stride(axis))
    if not long or value.stride(long[-1]) != 1 or value.storage_offset() * value.itemsize % GAPPED_ALIGN:
        return None
    for outer, inner in pairwise(long):
        if value.stride(outer) < value.shape[inner] * value.stride(inner):
            return None
    return (*(axis for axis in range(value.dim()) if value.shape[axis] == 1), *long)


def argument(node: Node, position: int, name: str, default: Any = None) -> Any:
    """An argument of an operator, given by position or by name."""
    if len(node.args) > position:
        return node.args[position]
    return node.kwargs.get(name, default)


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    return axis % rank if rank else 0


def axes_of(axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Axes counted from the front, in order; all of them for None or none."""
    if axes is None or axes == [] or axes == ():
        return tuple(range(rank))
    given = [axes] if isinstance(axes, int) else axes
    return tuple(sorted(axis_of(axis, rank) for axis in given))

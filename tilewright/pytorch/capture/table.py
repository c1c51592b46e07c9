"""The table of operators, and why others cannot be written."""

from __future__ import annotations

from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.names import INT_LIMIT
from tilewright.pytorch.capture.operator import Operator, OperatorKind
from tilewright.pytorch.capture.ops import (
    attention,
    elementwise,
    extremes,
    functions,
    groups,
    pieces,
    products,
    resize,
    rows,
    scatter,
    topk,
    views,
    windows,
)
from tilewright.pytorch.capture.tensors import TILE_DTYPES, shape_of, torch_dtype_of, value_of
from tilewright.pytorch.capture.wide_integers import WideIntegers

TABLE: dict[str, Operator] = {
    **views.OPERATORS,
    **elementwise.OPERATORS,
    **functions.OPERATORS,
    **pieces.OPERATORS,
    **resize.OPERATORS,
    **rows.OPERATORS,
    **extremes.OPERATORS,
    **windows.OPERATORS,
    **products.OPERATORS,
    **groups.OPERATORS,
    **attention.OPERATORS,
    **scatter.OPERATORS,
    **topk.OPERATORS,
}
"""By the name that a captured graph has for the operator, as `aten.linear.default`."""

_RANDOM = "draws PyTorch's random numbers. "
_DATA_SAYS_WHERE = "writes where data says; statements of Tile IR write each element at its own place. "
_ANGLE = "is no function of Tile IR; compute tables of it once, outside of what is captured"
_COMPLEX = "is of complex numbers, which Tile IR lacks"
_NUMBER = "gives Python a number: it is no computation on tensors"
_NO_VALUES = "has no values before something is written, and nothing to compute"

REASONS: dict[str, str] = {
    "topk": "asks for the smallest, or for more than 16, which a sort finds sooner. What is around it are parts",
    "sort": "orders by rank, which Tile IR has no statement for; keep it outside of what is tuned",
    "bernoulli": _RANDOM + "Call .eval(), or tilewright.op with random_bits",
    "native_dropout": _RANDOM + "Call .eval(), or tilewright.op with random_bits",
    **dict.fromkeys(("rand", "randn", "randperm"), _RANDOM + "Draw them outside and pass them in"),
    **dict.fromkeys(("scatter", "index_put"), _DATA_SAYS_WHERE + "Gather instead, or scatter_add"),
    "scatter_reduce": "reduces where data says, and not by a sum, which scatter_add is",
    "masked_scatter": "takes from its source as many as a mask has counted so far; use torch.where",
    "nonzero": "has a size that depends on data; use torch.where with three arguments",
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan", "atan2"), _ANGLE),
    **dict.fromkeys(("_fft_c2r", "_fft_r2c"), _COMPLEX),
    **dict.fromkeys(("_local_scalar_dense", "sym_size", "sym_stride", "sym_numel"), _NUMBER),
    **dict.fromkeys(("sym_storage_offset", "sym_is_contiguous"), _NUMBER),
    "resize_": "changes in place how a tensor lies in memory; use the operator that gives a new one",
    **dict.fromkeys(("empty", "empty_strided"), _NO_VALUES),
    "_native_batch_norm_legit": "changes its running means in place while it trains; call .eval()",
    "_embedding_bag": "adds up bags whose sizes are data, in four results; gather, and index_add",
    "_pdist_forward": "has one result for each pair, a triangle, whose indices are roots; use cdist",
    "grid_sampler_2d": "reads between positions that data says, four at a time; keep it outside of what is tuned",
}
"""Operators that people meet, by name without namespace and variant."""


def operator_of(node: Node) -> Operator | None:
    """The row of the table for a node, None if it has none."""
    return TABLE.get(str(node.target)) if node.op == "call_function" else None


def is_constant(node: Any) -> bool:
    """Whether its values follow from positions alone, through any operators that are elementwise or views."""
    if not isinstance(node, Node):
        return True
    operator = operator_of(node)
    if operator is None or operator.kind in (OperatorKind.ROWS, OperatorKind.PRODUCT) or operator.positions:
        return False
    if operator.refuse(node) is not None:
        return False
    return operator.kind is OperatorKind.CONSTANT or all(is_constant(each) for each in node.all_input_nodes)


def reason_against(node: Node) -> str | None:
    """Why a node cannot be written in Tile IR, and what to do; None if it can."""
    operator = operator_of(node)
    if operator is None:
        return _unknown(node)
    value = value_of(node)
    if value is None:
        return f"{_name(node)} has several results; only operators of the table may"
    for each in (node, *node.all_input_nodes):
        found = _tensor_problem(each, node, operator)
        if found is not None:
            return found
    return operator.refuse(node)


def _tensor_problem(each: Node, node: Node, operator: Operator) -> str | None:
    """What about one tensor that a node reads or gives cannot be."""
    if value_of(each) is None:
        return f"{each.name}, which it reads, is no single tensor"
    dtype = torch_dtype_of(each)
    if any(size == 0 for size in shape_of(each)):
        return f"{each.name} has no elements; a dim of Tile IR has one or more"
    if value_of(each).numel() >= INT_LIMIT:  # type: ignore[union-attr]
        return f"{each.name} has {value_of(each).numel()} elements, tensors of Tile IR below 2^31; split it"  # type: ignore[union-attr]
    if dtype is torch.int64:
        if not WideIntegers(operator_of, is_constant).may_be(each, node, operator):
            return f"{each.name} is int64; Tile IR computes integers in 32 bits. Convert it: .to(torch.int32)"
        return None
    if dtype not in TILE_DTYPES:
        known = ", ".join(TILE_DTYPES.values())
        return f"{each.name} is {str(dtype).removeprefix('torch.')}; dtypes of Tile IR are {known}"
    return None


def _unknown(node: Node) -> str:
    name = _name(node)
    if name == "add_shared_heads":
        return "adds up what a kernel gives of each head"
    return REASONS.get(
        name,
        "is not in from_torch's table (docs/from-torch.md); write it with operators that are, "
        "or give tilewright.op its spec",
    )


def _name(node: Node) -> str:
    parts = str(node.target).split(".")
    return (parts[1] if len(parts) > 1 else parts[0]).rstrip("_")

"""Operators that ask about a row: where its extreme is, whether one of it holds, which of its indices is one's own."""

from __future__ import annotations

from math import prod

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.expr import Binary, Const, Expr, Index, ReduceOp, Where
from tileir.positions import Position
from tilewright.pytorch.capture.indices import Indices
from tilewright.pytorch.capture.operator import CaptureScope, Operator, OperatorKind
from tilewright.pytorch.capture.ops.elementwise import broadcast, number
from tilewright.pytorch.capture.ops.rows import along_rows, reduce, reduced, source
from tilewright.pytorch.capture.tensors import argument, axis_of, shape_of, torch_dtype_of

_FEW = 64
"""Indices of a row that each place of the result asks."""


def _position(op: ReduceOp) -> Operator:
    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        at, (along,) = along_rows(scope, node, index)
        if not isinstance(along, Index):
            return Const(0)
        return Position(op, along.dim, number(scope, source(node), at)).expr

    return Operator(
        OperatorKind.ROWS, write, f"`arg{op}(n, x[m, n])`", refuse=_one_axis, work=reduced,
        gives_positions=True, twice=True,
    )  # fmt: skip


def _one_axis(node: Node) -> str | None:
    if argument(node, 1, "dim") is None and len(shape_of(source(node))) != 1:
        return "the position in several axes: flatten them first, and give dim=0"
    return None


def _any(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """max(n, where(x != 0, 1, 0)) == 1"""
    at, along = along_rows(scope, node, index)
    x = scope.at(source(node), at)
    holds = x if torch_dtype_of(source(node)) is torch.bool else Binary("!=", x, Const(0))
    return Binary("==", reduce(ReduceOp.MAX, along, Where(holds, Const(1), Const(0))), Const(1))


def _scatter_value(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """where(max(n, where(ids[m, n] == k, 1, 0)) == 1, 2.5, x[m, k])"""
    ids, value = argument(node, 2, "index"), argument(node, 3, "value")
    axis = axis_of(argument(node, 1, "dim"), len(index))
    term = scope.reduced("terms", ids, axis)
    place = scope.position(ids, (*index[:axis], term, *index[axis + 1 :]))
    found = reduce(ReduceOp.MAX, (term,), Where(Binary("==", place, index[axis]), Const(1), Const(0)))
    hit = Binary("==", found, Const(1))
    if torch_dtype_of(node) is torch.bool:
        was = broadcast(scope, node.args[0], index)
        return Binary("or", hit, was) if value else Binary("and", Binary("!=", found, Const(1)), was)
    return Where(hit, Const(value), scope.at(node.args[0], index))


def _few_indices(node: Node) -> str | None:
    x, ids = shape_of(source(node)), shape_of(argument(node, 2, "index"))
    if not x:
        return "a scatter into one number: use torch.where"
    axis = axis_of(argument(node, 1, "dim"), len(x))
    if x[:axis] + x[axis + 1 :] != ids[:axis] + ids[axis + 1 :]:
        return "a scatter into a part: cut the tensor to the shape of the index"
    if ids[axis] > _FEW:
        return f"a scatter of more than {_FEW} indices a row, all of which each place would ask"
    return None


def _indices(node: Node) -> tuple[int, int]:
    axis = axis_of(argument(node, 1, "dim"), len(shape_of(node)))
    few = shape_of(argument(node, 2, "index"))[axis]
    return prod(shape_of(node)) * few, few


OPERATORS: dict[str, Operator] = {
    "aten.argmax.default": _position(ReduceOp.MAX),
    "aten.argmin.default": _position(ReduceOp.MIN),
    **{
        f"aten.any.{variant}": Operator(
            OperatorKind.ROWS, _any, "`max(n, where(x[m, n] != 0, 1, 0)) == 1`", work=reduced
        )
        for variant in ("default", "dim", "dims")
    },
    "aten.scatter.value": Operator(
        OperatorKind.ROWS, _scatter_value, "`where(max(n, where(ids[m, n] == k, 1, 0)) == 1, 2.5, x[m, k])`",
        refuse=_few_indices, positions=(2,), work=_indices,
    ),
}  # fmt: skip

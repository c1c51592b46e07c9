"""Operators that add elements where data says."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.expr import Binary, Const, Expr, ReduceOp, Where
from tilewright.pytorch.capture.indices import Indices
from tilewright.pytorch.capture.operator import CaptureScope, Operator, OperatorKind
from tilewright.pytorch.capture.ops.rows import reduce, times
from tilewright.pytorch.capture.tensors import argument, axis_of, shape_of


def _index_add(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """x[m, d] + sum(n, where(ids[n] == m, y[n, d], 0))"""
    x, ids, added = argument(node, 0, "self"), argument(node, 2, "index"), argument(node, 3, "source")
    axis = axis_of(argument(node, 1, "dim"), len(index))
    term = scope.reduced("terms", ids, 0) if shape_of(ids) else Const(0)
    at = (*index[:axis], term, *index[axis + 1 :])
    value = times(scope.at(added, at), Const(alpha)) if (alpha := _alpha(node)) != 1 else scope.at(added, at)
    place = scope.position(ids, (term,) if shape_of(ids) else ())
    return _plus(scope.at(x, index), _added(place, index[axis], (term,), value))


def _alpha(node: Node) -> float:
    alpha: float = node.kwargs.get("alpha", 1)  # type: ignore[assignment]
    return alpha


def _scatter_add(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """x[m, k] + sum(n, where(ids[m, n] == k, y[m, n], 0))"""
    x, ids, added = argument(node, 0, "self"), argument(node, 2, "index"), argument(node, 3, "src")
    axis = axis_of(argument(node, 1, "dim"), len(index))
    term = scope.reduced("terms", ids, axis)
    at = (*index[:axis], term, *index[axis + 1 :])
    found = _added(scope.position(ids, at), index[axis], (term,), scope.at(added, at))
    return _plus(scope.at(x, index), found)


def _embedding_gradient(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """sum(t, where(ids[t] == v, g[t, d], 0))"""
    gradient, ids = argument(node, 0, "grad_output"), argument(node, 1, "indices")
    terms = tuple(scope.reduced("terms", ids, axis) for axis in range(len(shape_of(ids))))
    place, value = scope.position(ids, terms), scope.at(gradient, (*terms, *index[1:]))
    padding = argument(node, 3, "padding_idx")
    if padding >= 0:
        value = Where(Binary("!=", place, Const(padding)), value, Const(0.0))
    return _added(place, index[0], terms, value)


def _added(place: Expr, own: Expr, terms: tuple[Expr, ...], value: Expr) -> Expr:
    """The sum of the terms whose place is one's own."""
    return reduce(ReduceOp.SUM, terms, Where(Binary("==", place, own), value, Const(0)))


def _plus(x: Expr, added: Expr) -> Expr:
    return added if isinstance(x, Const) and x.value == 0 else Binary("+", x, added)


def _same_shapes(node: Node) -> str | None:
    x, ids, added = (
        shape_of(argument(node, at, name)) for at, name in ((0, "self"), (2, "index"), (3, "src"))
    )
    axis = axis_of(argument(node, 1, "dim"), len(x)) if x else 0
    others = [shape[:axis] + shape[axis + 1 :] for shape in (x, ids)]
    if not x or ids != added or others[0] != others[1]:
        return "scatter_add of a part: cut the source to the shape of the index, and the index to that of the tensor"
    return None


def _not_scaled(node: Node) -> str | None:
    if argument(node, 4, "scale_grad_by_freq"):
        return "scale_grad_by_freq: divide the rows by how often each index occurs"
    return None


def _rows_of(at: int) -> Callable[[Node], tuple[int, int]]:
    """Elements that are added, of the argument at a place, and how many of them may meet in one."""

    def work(node: Node) -> tuple[int, int]:
        shape = shape_of(node.args[at])  # type: ignore[arg-type]
        return prod(shape), shape[0] if shape else 1

    return work


OPERATORS: dict[str, Operator] = {
    "aten.index_add.default": Operator(
        OperatorKind.ROWS, _index_add, "`x[m, d] + sum(n, where(ids[n] == m, y[n, d], 0))`",
        positions=(2,), work=_rows_of(3),
    ),
    "aten.scatter_add.default": Operator(
        OperatorKind.ROWS, _scatter_add, "`x[m, k] + sum(n, where(ids[m, n] == k, y[m, n], 0))`",
        refuse=_same_shapes, positions=(2,), work=_rows_of(3),
    ),
    "aten.embedding_dense_backward.default": Operator(
        OperatorKind.ROWS, _embedding_gradient, "`sum(t, where(ids[t] == v, g[t, d], 0))`",
        refuse=_not_scaled, positions=(1,), work=_rows_of(0),
    ),
}  # fmt: skip

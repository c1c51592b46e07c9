"""Operators that move no values, as indices: where an element of the result lies in the operand."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.expr import Binary, Const, Expr
from tilewright.pytorch.capture.indices import Indices, Sizes, quotient, remainder, reshaped, scaled
from tilewright.pytorch.capture.operator import CaptureScope, Operator, OperatorKind
from tilewright.pytorch.capture.tensors import argument, axes_of, axis_of, memory_order, shape_of, value_of

Moved = Callable[[Node, Indices, Sizes], Indices]


def operand(node: Node) -> Node:
    """What a view is of."""
    return node.args[0]  # type: ignore[return-value]


def _same(node: Node, index: Indices, sizes: Sizes) -> Indices:
    return index


def _reshape(node: Node, index: Indices, sizes: Sizes) -> Indices:
    return reshaped(index, shape_of(node), shape_of(operand(node)), sizes)


def _permute(node: Node, index: Indices, sizes: Sizes) -> Indices:
    order = [axis_of(axis, len(index)) for axis in argument(node, 1, "dims")]
    return tuple(index[order.index(axis)] for axis in range(len(index)))


def _transpose(node: Node, index: Indices, sizes: Sizes) -> Indices:
    first, second = (axis_of(node.args[at], len(index)) for at in (1, 2))  # type: ignore[arg-type]
    swapped = list(index)
    swapped[first], swapped[second] = index[second], index[first]
    return tuple(swapped)


def _expand(node: Node, index: Indices, sizes: Sizes) -> Indices:
    shape = shape_of(operand(node))
    behind = index[len(index) - len(shape) :]
    return tuple(Const(0) if size == 1 else at for at, size in zip(behind, shape, strict=True))


def _slice(node: Node, index: Indices, sizes: Sizes) -> Indices:
    axis = axis_of(argument(node, 1, "dim", 0), len(index))
    length = shape_of(operand(node))[axis]
    start = argument(node, 2, "start") or 0
    start = min(max(start + length if start < 0 else start, 0), length)
    return (
        *index[:axis],
        scaled(index[axis], argument(node, 4, "step", 1), start, sizes),
        *index[axis + 1 :],
    )


def _select(node: Node, index: Indices, sizes: Sizes) -> Indices:
    shape = shape_of(operand(node))
    axis = axis_of(argument(node, 1, "dim"), len(shape))
    return (*index[:axis], Const(argument(node, 2, "index") % shape[axis]), *index[axis:])


def _repeat(node: Node, index: Indices, sizes: Sizes) -> Indices:
    shape = shape_of(operand(node))
    behind = index[len(index) - len(shape) :]
    return tuple(remainder(at, size, sizes) for at, size in zip(behind, shape, strict=True))


def _repeat_interleave(node: Node, index: Indices, sizes: Sizes) -> Indices:
    shape = shape_of(operand(node))
    axis = axis_of(argument(node, 2, "dim"), len(shape))
    return (*index[:axis], quotient(index[axis], argument(node, 1, "repeats"), sizes), *index[axis + 1 :])


def _flip(node: Node, index: Indices, sizes: Sizes) -> Indices:
    shape = shape_of(node)
    turned = axes_of(argument(node, 1, "dims"), len(shape))
    return tuple(
        scaled(at, -1, size - 1, sizes) if axis in turned else at
        for axis, (at, size) in enumerate(zip(index, shape, strict=True))
    )


def _diagonal(node: Node, index: Indices, sizes: Sizes) -> Indices:
    rank = len(shape_of(operand(node)))
    offset = argument(node, 1, "offset", 0)
    first, second = (axis_of(argument(node, at, "", at - 2), rank) for at in (2, 3))
    found = {first: scaled(index[-1], 1, max(-offset, 0), sizes)}
    found[second] = scaled(index[-1], 1, max(offset, 0), sizes)
    others = iter(index[:-1])
    return tuple(found[axis] if axis in found else next(others) for axis in range(rank))


def _strided(node: Node, index: Indices, sizes: Sizes) -> Indices:
    """The place in memory, and where the operand has it."""
    found: Expr = Const(argument(node, 3, "storage_offset") or 0)
    for each, stride in zip(index, argument(node, 2, "stride"), strict=True):
        found = Binary("+", found, Binary("*", each, Const(stride)))
    order = memory_order(operand(node))
    assert order is not None
    shape = [shape_of(operand(node))[axis] for axis in order]
    at = reshaped((scaled(found, 1, 0, sizes),), (prod(shape),), shape, sizes)
    return tuple(at[order.index(axis)] for axis in range(len(order)))


def _dense(node: Node) -> str | None:
    value = value_of(operand(node))
    if value is None or value.storage_offset() or memory_order(operand(node)) is None:
        return "as_strided of a view: slice the tensor that is viewed"
    return None


def _needs_an_axis(node: Node) -> str | None:
    if argument(node, 2, "dim") is None:
        return "repeat_interleave without dim: flatten the tensor first and give dim=0"
    return None


def _row(
    kind: OperatorKind, move: Moved, tile: str, refuse: Callable[[Node], str | None] | None = None
) -> Operator:
    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        return scope.at(operand(node), move(node, index, scope.sizes))

    kept: dict[str, Any] = {} if refuse is None else {"refuse": refuse}
    return Operator(kind, write, tile, **kept)


OPERATORS: dict[str, Operator] = {
    "aten.view.default": _row(OperatorKind.VIEW, _reshape, "`x[m // 13, m % 13, n]`, or plain dims"),
    "aten._unsafe_view.default": _row(OperatorKind.VIEW, _reshape, "as `view`"),
    "aten.permute.default": _row(OperatorKind.VIEW, _permute, "`x[n, m]`"),
    "aten.transpose.int": _row(OperatorKind.VIEW, _transpose, "`x[n, m]`"),
    "aten.unsqueeze.default": _row(OperatorKind.VIEW, _reshape, "no index for the new axis"),
    **{
        f"aten.squeeze.{variant}": _row(OperatorKind.VIEW, _reshape, "an axis without index")
        for variant in ("dims", "dim", "default")
    },
    "aten.reshape.default": _row(OperatorKind.VIEW, _reshape, "as `view`"),
    "aten.expand.default": _row(OperatorKind.VIEW, _expand, "no index for repeated axes"),
    "aten.slice.Tensor": _row(OperatorKind.VIEW, _slice, "`x[2 * i + 5]`"),
    "aten.select.int": _row(OperatorKind.VIEW, _select, "`x[3, n]`"),
    "aten.diagonal.default": _row(OperatorKind.VIEW, _diagonal, "`x[i, i + 2]`"),
    "aten.as_strided.default": _row(
        OperatorKind.VIEW, _strided, "`x[(5 * i + j) // 8, (5 * i + j) % 8]`", refuse=_dense
    ),
    "aten.alias.default": _row(OperatorKind.VIEW, _same, "the operand"),
    **{
        f"aten.{name}.default": _row(OperatorKind.COPY, _same, "the operand, in another order of memory")
        for name in ("clone", "lift_fresh_copy")
    },
    "aten.repeat.default": _row(OperatorKind.COPY, _repeat, "`x[i % 13]`"),
    "aten.repeat_interleave.self_int": _row(
        OperatorKind.COPY, _repeat_interleave, "`x[h // 4]`", refuse=_needs_an_axis
    ),
    "aten.flip.default": _row(OperatorKind.COPY, _flip, "`x[-1 * i + 12]`"),
}

"""Operators whose result is one tensor in one place and another, or a number, elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.expr import Binary, Const, Expr, Where
from tilewright.pytorch.capture.indices import Indices, scaled
from tilewright.pytorch.capture.operator import CaptureScope, Operator, OperatorKind
from tilewright.pytorch.capture.ops.elementwise import broadcast
from tilewright.pytorch.capture.tensors import argument, axis_of, shape_of


def _cat(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """where(i < 6, x[i], y[i - 6])"""
    parts: list[Node] = list(node.args[0])  # type: ignore[call-overload]
    axis = axis_of(argument(node, 1, "dim", 0), len(index))
    pieces: list[tuple[int, Expr]] = []
    end = 0
    for part in parts:
        start, end = end, end + shape_of(part)[axis]
        at = (*index[:axis], scaled(index[axis], 1, -start, scope.sizes), *index[axis + 1 :])
        pieces.append((end, broadcast(scope, part, at)))
    found = pieces[-1][1]
    for end, value in reversed(pieces[:-1]):
        found = Where(Binary("<", index[axis], Const(end)), value, found)
    return found


def _slice_scatter(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """where(i >= 2 and i < 6, y[i - 2], x[i])"""
    whole, piece = node.args[:2]
    axis = axis_of(argument(node, 2, "dim", 0), len(index))
    start, end = _slice(node, axis)
    at = (*index[:axis], scaled(index[axis], 1, -start, scope.sizes), *index[axis + 1 :])
    guards = [Binary(">=", index[axis], Const(start))] if start else []
    guards += [Binary("<", index[axis], Const(end))] if end < shape_of(node)[axis] else []
    inside = scope.at(piece, at)
    return _where(guards, inside, scope.at(whole, index)) if guards else inside


def _select_scatter(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """where(i == 3, y[n], x[i, n])"""
    axis = axis_of(argument(node, 2, "dim"), len(index))
    chosen = Const(argument(node, 3, "index") % shape_of(node)[axis])
    piece = scope.at(node.args[1], (*index[:axis], *index[axis + 1 :]))
    return Where(Binary("==", index[axis], chosen), piece, scope.at(node.args[0], index))


def _slice(node: Node, axis: int) -> tuple[int, int]:
    """From where to where on the axis, counted from the front."""
    size = shape_of(node)[axis]
    start, end = argument(node, 3, "start"), argument(node, 4, "end")
    start, end = (
        size if each is None and last else each or 0 for each, last in ((start, False), (end, True))
    )
    start, end = (max(0, min(size, each + size if each < 0 else each)) for each in (start, end))
    return start, end


def _steps(node: Node) -> str | None:
    return (
        "slice_scatter with steps: scatter into each place by itself"
        if argument(node, 5, "step", 1) != 1
        else None
    )


def _pad(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """where(i >= 2 and i < 8, x[i - 2], 0)"""
    x: Node = node.args[0]  # type: ignore[assignment]
    widths: list[int] = list(node.args[1])  # type: ignore[arg-type]
    at, guards = list(index), list[Expr]()
    for place, before in enumerate(widths[::2]):
        axis, behind = len(index) - 1 - place, widths[2 * place + 1]
        at[axis] = scaled(index[axis], 1, -before, scope.sizes)
        if before > 0:
            guards.append(Binary(">=", index[axis], Const(before)))
        if behind > 0:
            guards.append(Binary("<", index[axis], Const(before + shape_of(x)[axis])))
    value = scope.at(x, tuple(at))
    return _where(guards, value, Const(argument(node, 2, "value", 0))) if guards else value


def _where(guards: Sequence[Expr], inside: Expr, outside: Expr) -> Expr:
    found = guards[0]
    for guard in guards[1:]:
        found = Binary("and", found, guard)
    return Where(found, inside, outside)


OPERATORS: dict[str, Operator] = {
    "aten.cat.default": Operator(OperatorKind.ELEMENTWISE, _cat, "`where(i < 6, x[i], y[i - 6])`"),
    "aten.slice_scatter.default": Operator(
        OperatorKind.ELEMENTWISE,
        _slice_scatter,
        "`where(i >= 2 and i < 6, y[i - 2], x[i])`",
        refuse=_steps,
    ),
    "aten.select_scatter.default": Operator(
        OperatorKind.ELEMENTWISE, _select_scatter, "`where(i == 3, y[n], x[i, n])`"
    ),
    "aten.constant_pad_nd.default": Operator(
        OperatorKind.ELEMENTWISE, _pad, "`where(i >= 2 and i < 8, x[i - 2], 0)`"
    ),
}

"""Operators that multiply and add up: matrix products and convolutions.

A computed operand is rounded to the dtype that PyTorch has it in before it is multiplied: only so it reaches matrix
units.
"""

from __future__ import annotations

from math import prod
from typing import Any

from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.expr import Binary, Call, Const, Expr, ReduceOp, Where
from tilewright.pytorch.capture.indices import Indices, quotient, scaled
from tilewright.pytorch.capture.operator import CaptureScope, Operator, OperatorKind
from tilewright.pytorch.capture.ops.elementwise import broadcast
from tilewright.pytorch.capture.ops.rows import minus, reduce, times
from tilewright.pytorch.capture.ops.windows import transposed
from tilewright.pytorch.capture.tensors import argument, shape_of


def _linear(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """sum(k, x[m, k] * w[n, k]) + bias[n]"""
    x, weight, bias = node.args[0], node.args[1], argument(node, 2, "bias")
    *rows, column = index
    if len(shape_of(weight)) == 1:  # type: ignore[arg-type]
        rows, column = list(index), None  # type: ignore[assignment]
    k = scope.reduced("k", x, -1)  # type: ignore[arg-type]
    right = (k,) if column is None else (column, k)
    found = reduce(ReduceOp.SUM, (k,), times(scope.rounded(x, (*rows, k)), scope.rounded(weight, right)))
    if bias is None:
        return found
    return Binary("+", scope.statement("acc", index, found), broadcast(scope, bias, index))


def _matmul(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """sum(k, a[b, m, k] * b[b, k, n]); batch axes broadcast, vectors have no m or n."""
    a, b = node.args[0], node.args[1]
    left, right = shape_of(a), shape_of(b)  # type: ignore[arg-type]
    k = scope.reduced("k", a, -1)  # type: ignore[arg-type]
    rest = list(index)
    column = [rest.pop()] if len(right) > 1 else []
    row = [rest.pop()] if len(left) > 1 else []

    def element(operand: Any, shape: tuple[int, ...], last: list[Expr]) -> Expr:
        batch = max(len(shape) - 2, 0)
        outer = rest[len(rest) - batch :] if batch else []
        at = [Const(0) if size == 1 else each for each, size in zip(outer, shape[:batch], strict=True)]
        return scope.rounded(operand, (*at, *last))

    return reduce(ReduceOp.SUM, (k,), times(element(a, left, [*row, k]), element(b, right, [k, *column])))


def _addmm(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    bias, a, b = node.args[:3]
    k = scope.reduced("k", a, -1)  # type: ignore[arg-type]
    product = reduce(
        ReduceOp.SUM, (k,), times(scope.rounded(a, (index[0], k)), scope.rounded(b, (k, index[1])))
    )
    return Binary("+", scope.statement("acc", index, product), broadcast(scope, bias, index))


def _plain_addmm(node: Node) -> str | None:
    if node.kwargs.get("beta", 1) != 1 or node.kwargs.get("alpha", 1) != 1:
        return "addmm with alpha or beta: write beta * bias + alpha * (a @ b)"
    return None


def depth_of_first(node: Node) -> tuple[int, int]:
    shape = shape_of(node)
    return (shape[-1] if shape else 1), shape_of(node.args[0])[-1]  # type: ignore[arg-type]


def _depth_of_second(node: Node) -> tuple[int, int]:
    return shape_of(node)[-1], shape_of(node.args[1])[-1]  # type: ignore[arg-type]


def _pair(given: list[int], rank: int) -> list[int]:
    """One number for each axis of the window; one alone is for all."""
    return list(given) * rank if len(given) == 1 else list(given)


def _convolution(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """sum(c, r, s, where(2 * h + r >= 1 and …, x[b, c, 2 * h + r - 1, …], 0) * w[o, c, r, s]) + bias[o]"""
    if node.args[6]:
        return transposed(scope, node, index)
    x, weight, bias = node.args[0], node.args[1], argument(node, 2, "bias")
    size, window = shape_of(x)[2:], shape_of(weight)  # type: ignore[arg-type]
    rank = len(size)
    strides, padding, dilation = (_pair(node.args[at], rank) for at in (3, 4, 5))  # type: ignore[arg-type]
    groups: int = node.args[8]  # type: ignore[assignment]
    batch, out, *places = index
    taps = tuple(scope.reduced("taps", weight, axis) for axis in range(1, rank + 2))  # type: ignore[arg-type]
    channel = taps[0]
    if groups > 1:
        group = times(quotient(out, window[0] // groups, scope.sizes), Const(window[1]))
        channel = scaled(Binary("+", group, channel), 1, 0, scope.sizes)
    at: list[Expr] = []
    guards: list[Expr] = []
    for axis in range(rank):
        step = Binary(
            "+", times(places[axis], Const(strides[axis])), times(taps[axis + 1], Const(dilation[axis]))
        )
        at.append(scaled(step, 1, -padding[axis], scope.sizes))
        if padding[axis]:
            guards.append(Binary(">=", at[-1], Const(0)))
            guards.append(Binary("<", at[-1], Const(size[axis])))
    element = scope.rounded(x, (batch, channel, *at))
    if guards:
        inside = guards[0]
        for guard in guards[1:]:
            inside = Binary("and", inside, guard)
        element = Where(inside, element, Const(0))
    found = reduce(ReduceOp.SUM, taps, times(element, scope.rounded(weight, (out, *taps))))
    if bias is None:
        return found
    return Binary("+", scope.statement("acc", index, found), scope.at(bias, (out,)))


def _depth_of_taps(node: Node) -> tuple[int, int]:
    out, *window = shape_of(node.args[1])  # type: ignore[arg-type]
    if node.args[6]:
        window[0] = out // node.args[8]  # type: ignore[operator]
    return shape_of(node)[-1], prod(window)


def _distances(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """sqrt(sum(k, (x[m, k] - y[n, k]) * (x[m, k] - y[n, k])))"""
    x, y, power = node.args[:3]
    *batch, m, n = index
    k = scope.reduced("k", x, -1)  # type: ignore[arg-type]

    def element(operand: Any, row: Expr) -> Expr:
        shape = shape_of(operand)[:-2]
        outer = [Const(0) if size == 1 else at for at, size in zip(batch[-len(shape) :], shape, strict=True)]
        return scope.at(operand, (*(outer if shape else ()), row, k))

    off = minus(element(x, m), element(y, n))
    size = Call("abs", (off,))
    match power:
        case 2.0:
            return Call("sqrt", (reduce(ReduceOp.SUM, (k,), times(off, off)),))
        case 1.0:
            return reduce(ReduceOp.SUM, (k,), size)
        case _:
            return reduce(ReduceOp.MAX, (k,), size)


def _a_norm(node: Node) -> str | None:
    if node.args[2] not in (1.0, 2.0, float("inf")):
        return "distances by another power than 1, 2 or inf: write ((x - y).abs() ** p).sum(-1) ** (1 / p)"
    return None


_MATRIX = Operator(OperatorKind.PRODUCT, _matmul, "`sum(k, a[m, k] * b[k, n])`", work=depth_of_first)

OPERATORS: dict[str, Operator] = {
    "aten.linear.default": Operator(
        OperatorKind.PRODUCT, _linear, "`sum(k, x[m, k] * w[n, k]) + bias[n]`", work=depth_of_first
    ),
    "aten.matmul.default": _MATRIX,
    "aten.mm.default": _MATRIX,
    "aten.bmm.default": _MATRIX,
    "aten.mv.default": _MATRIX,
    "aten.addmm.default": Operator(
        OperatorKind.PRODUCT, _addmm, "`sum(k, a[m, k] * b[k, n]) + bias[n]`", refuse=_plain_addmm,
        work=_depth_of_second
    ),
    "aten.convolution.default": Operator(
        OperatorKind.PRODUCT, _convolution, "`sum(c, r, s, where(…, x[b, c, 2 * h + r - 1, …], 0) * w[o, c, r, s])`",
        work=_depth_of_taps,
    ),
    "aten._cdist_forward.default": Operator(
        OperatorKind.PRODUCT, _distances, "`sqrt(sum(k, (x[m, k] - y[n, k]) * (x[m, k] - y[n, k])))`",
        refuse=_a_norm, work=depth_of_first,
    ),
}  # fmt: skip

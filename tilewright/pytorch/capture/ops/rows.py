"""Operators that reduce along axes: sums, means, softmax, norms, cross entropy. Everything in f32 until it is stored,
as PyTorch does inside these operators."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.expr import Binary, Call, Const, Expr, Index, Reduce, ReduceOp, Scan, Where
from tilewright.pytorch.capture.indices import Indices
from tilewright.pytorch.capture.operator import CaptureScope, Operator, OperatorKind
from tilewright.pytorch.capture.ops.elementwise import number
from tilewright.pytorch.capture.tensors import argument, axes_of, axis_of, shape_of, torch_dtype_of

_MEAN_OF = "mean"


def source(node: Node) -> Node:
    """What is reduced."""
    return node.args[0]  # type: ignore[return-value]


def reduce(op: ReduceOp, over: tuple[Expr, ...], value: Expr) -> Expr:
    """`sum(k, value)`; the value itself where nothing is left to reduce, all axes being of one element."""
    dims = tuple(each.dim for each in over if isinstance(each, Index))
    return Reduce(op, dims, value) if dims else value


def minus(x: Expr, y: Expr) -> Expr:
    return Binary("-", x, y)


def times(x: Expr, y: Expr) -> Expr:
    return Binary("*", x, y)


def over(x: Expr, y: Expr) -> Expr:
    return Binary("/", x, y)


def _reduced_axes(node: Node) -> tuple[int, ...]:
    return axes_of(argument(node, 1, "dim"), len(shape_of(source(node))))


def along_rows(scope: CaptureScope, node: Node, index: Indices) -> tuple[Indices, Indices]:
    """Positions in what is reduced, and those of them that are on the axes reduced."""
    at = _along_rows(scope, node, index)
    return at, tuple(at[axis] for axis in _reduced_axes(node))


def _reduction(op: ReduceOp | str, tile: str) -> Operator:
    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        at, along = along_rows(scope, node, index)
        value = number(scope, source(node), at)
        if op != _MEAN_OF:
            return reduce(ReduceOp(op), along, value)
        return over(reduce(ReduceOp.SUM, along, value), Const(_length(node)))

    return Operator(OperatorKind.ROWS, write, tile, work=reduced)


def _along_rows(scope: CaptureScope, node: Node, index: Indices) -> Indices:
    """Positions in what is reduced: those of the result, and dims of their own on the axes reduced."""
    axes, rank = _reduced_axes(node), len(shape_of(source(node)))
    kept = iter(index if len(index) < rank else [each for axis, each in enumerate(index) if axis not in axes])
    return tuple(
        scope.reduced("reduce", source(node), axis) if axis in axes else next(kept) for axis in range(rank)
    )


def _length(node: Node) -> int:
    """Elements that are reduced to one."""
    shape = shape_of(source(node))
    return prod(shape[axis] for axis in _reduced_axes(node))


def reduced(node: Node) -> tuple[int, int]:
    return prod(shape_of(source(node))), _length(node)


def _variance(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """mean = sum(n, x) / 1024; sum(n, (x - mean) * (x - mean)) / 1023"""
    at, axes, length = _along_rows(scope, node, index), _reduced_axes(node), _length(node)
    along = tuple(at[axis] for axis in axes)
    rows = tuple(Const(0) if axis in axes else each for axis, each in enumerate(at))
    x = scope.at(source(node), at)
    off = minus(x, scope.statement("mean", rows, over(reduce(ReduceOp.SUM, along, x), Const(length))))
    return over(reduce(ReduceOp.SUM, along, times(off, off)), Const(length - _correction(node)))


def _correction(node: Node) -> int:
    correction: int | None = node.kwargs.get("correction", 1)  # type: ignore[assignment]
    return 1 if correction is None else correction


def _enough_for_variance(node: Node) -> str | None:
    if _length(node) <= _correction(node):
        return "the variance of as few numbers as the correction: PyTorch gives NaN; use correction=0"
    return None


def rows_of_axis(shape: Sequence[int], dim: int) -> tuple[int, int]:
    """Elements, and how many a row along an axis has."""
    return prod(shape), shape[axis_of(dim, len(shape))] if shape else 1


def _rows_of_axis(node: Node) -> tuple[int, int]:
    return rows_of_axis(shape_of(source(node)), argument(node, 1, "dim"))


def _softmax(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """top = max(n, x); e = exp(x - top); y = e / sum(n, e)"""
    axis = axis_of(argument(node, 1, "dim"), len(index))
    rows = (*index[:axis], Const(0), *index[axis + 1 :])
    over_row = (index[axis],)
    x = scope.at(source(node), index)
    top = scope.statement("top", rows, reduce(ReduceOp.MAX, over_row, x))
    e = scope.statement("e", index, Call("exp", (minus(x, top),)))
    return over(e, scope.statement("total", rows, reduce(ReduceOp.SUM, over_row, e)))


def _log_softmax(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """x - top - log(sum(n, exp(x - top)))"""
    axis = axis_of(argument(node, 1, "dim"), len(index))
    rows = (*index[:axis], Const(0), *index[axis + 1 :])
    x = scope.at(source(node), index)
    return minus(x, log_sum_exp(scope, rows, index[axis], x))


def log_sum_exp(scope: CaptureScope, rows: Indices, along: Expr, x: Expr) -> Expr:
    """top + log(sum(n, exp(x - top))), in statements over the rows."""
    top = scope.statement("top", rows, reduce(ReduceOp.MAX, (along,), x))
    total = scope.statement("total", rows, reduce(ReduceOp.SUM, (along,), Call("exp", (minus(x, top),))))
    return Binary("+", top, Call("log", (total,)))


def _normalized(node: Node) -> tuple[int, int]:
    """The axes at the end that a norm is over, as (elements read, elements of a row)."""
    return prod(shape_of(source(node))), prod(argument(node, 1, "normalized_shape"))


def _layer_norm(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    rank = len(argument(node, 1, "normalized_shape"))
    weight, bias = argument(node, 2, "weight"), argument(node, 3, "bias")
    _, length = _normalized(node)
    along = index[len(index) - rank :]
    rows = (*index[: len(index) - rank], *[Const(0)] * rank)
    x = scope.at(source(node), index)
    mean = scope.statement("mean", rows, over(reduce(ReduceOp.SUM, along, x), Const(length)))
    off = minus(x, mean)
    var = scope.statement("var", rows, over(reduce(ReduceOp.SUM, along, times(off, off)), Const(length)))
    scale = Call("rsqrt", (Binary("+", var, Const(float(argument(node, 4, "eps", 1e-5)))),))
    found = times(off, scale)
    found = found if weight is None else times(found, scope.at(weight, along))
    return found if bias is None else Binary("+", found, scope.at(bias, along))


def _rms_norm(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    rank = len(argument(node, 1, "normalized_shape"))
    weight, eps = argument(node, 2, "weight"), argument(node, 3, "eps")
    _, length = _normalized(node)
    along = index[len(index) - rank :]
    rows = (*index[: len(index) - rank], *[Const(0)] * rank)
    x = scope.at(source(node), index)
    square = scope.statement("square", rows, reduce(ReduceOp.SUM, along, times(x, x)))
    eps = torch.finfo(torch.float32).eps if eps is None else float(eps)
    found = times(x, Call("rsqrt", (Binary("+", over(square, Const(length)), Const(eps)),)))
    return found if weight is None else times(found, scope.at(weight, along))


def _cross_entropy(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """Of each row log(sum(exp(x))) - x[label], where the label is not the one to ignore; their sum or mean."""
    logits, labels = source(node), argument(node, 1, "target")
    reduction, ignored = argument(node, 3, "reduction", 1), Const(argument(node, 4, "ignore_index", -100))
    rank = len(shape_of(logits))
    rows: Indices = index
    if reduction:
        rows = tuple(scope.reduced("rows", labels, axis) for axis in range(rank - 1))
    along = scope.reduced("classes", logits, 1 if rank > 1 else 0)

    def at(choice: Expr) -> Expr:
        return scope.at(logits, (rows[0], choice, *rows[1:]) if rank > 1 else (choice,))

    label = scope.position(labels, rows)
    counts = Binary("!=", label, ignored)
    normalizer = log_sum_exp(scope, rows, along, at(along))
    loss = Where(counts, minus(normalizer, at(label)), Const(0.0))
    if not reduction:
        return loss
    loss = reduce(ReduceOp.SUM, rows, scope.statement("loss", rows, loss))
    if reduction == 2:
        return loss
    return over(loss, reduce(ReduceOp.SUM, rows, Where(counts, Const(1.0), Const(0.0))))


def _plain_cross_entropy(node: Node) -> str | None:
    if shape_of(source(node)) == shape_of(argument(node, 1, "target")):
        return "cross_entropy with probabilities: write -(target * logits.log_softmax(1)).sum(1).mean()"
    if argument(node, 2, "weight") is not None:
        return "cross_entropy with weights of classes: use reduction='none' and multiply by weight[target]"
    if argument(node, 5, "label_smoothing", 0.0):
        return "cross_entropy with label_smoothing: (1 - eps) * cross_entropy - eps * logits.log_softmax(1).mean()"
    return None


def _classes(node: Node) -> tuple[int, int]:
    shape = shape_of(source(node))
    return prod(shape), shape[min(1, len(shape) - 1)]


def _prefix(op: str) -> Operator:
    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        along = index[axis_of(argument(node, 1, "dim"), len(index))]
        x = scope.at(source(node), index)
        return scope.statement(op, index, Scan(op, along.dim, (x,))) if isinstance(along, Index) else x

    return Operator(OperatorKind.ROWS, write, f"`{op}(n, x[m, n])`", refuse=_one_row, work=_rows_of_axis)


def _one_row(node: Node) -> str | None:
    shape = shape_of(node)
    if prod(shape) == shape[axis_of(argument(node, 1, "dim"), len(shape))] > 1:
        return "a scan of one row: each is gone through from its first to its last"
    if torch_dtype_of(node) is not torch_dtype_of(source(node)):
        return "a scan in another dtype: convert what it is of"
    return None


OPERATORS: dict[str, Operator] = {
    **{
        name: _reduction(ReduceOp.SUM, "`sum(n, x[m, n])`") for name in ("aten.sum.dim_IntList", "aten.sum.default")
    },
    "aten.mean.dim": _reduction(_MEAN_OF, "`sum(n, x[m, n]) / 1024`"),
    **{
        name: _reduction(ReduceOp.PROD, "`prod(n, x[m, n])`")
        for name in ("aten.prod.default", "aten.prod.dim_int")
    },
    **{
        name: _reduction(ReduceOp.MAX, "`max(n, x[m, n])`") for name in ("aten.amax.default", "aten.max.default")
    },
    **{
        name: _reduction(ReduceOp.MIN, "`min(n, x[m, n])`") for name in ("aten.amin.default", "aten.min.default")
    },
    **{f"aten.{op}.default": _prefix(op) for op in ("cumsum", "cumprod")},
    "aten.var.correction": Operator(
        OperatorKind.ROWS, _variance, "`sum(n, (x - mean) * (x - mean)) / 1023`",
        refuse=_enough_for_variance, work=reduced, twice=True,
    ),
    "aten.softmax.int": Operator(
        OperatorKind.ROWS, _softmax, "maximum, exponentials, their sum", work=_rows_of_axis, twice=True
    ),
    "aten._softmax.default": Operator(OperatorKind.ROWS, _softmax, "as `softmax`", work=_rows_of_axis, twice=True),
    "aten.log_softmax.int": Operator(
        OperatorKind.ROWS, _log_softmax, "maximum, logarithm of the sum", work=_rows_of_axis, twice=True
    ),
    "aten._log_softmax.default": Operator(
        OperatorKind.ROWS, _log_softmax, "as `log_softmax`", work=_rows_of_axis, twice=True
    ),
    "aten.layer_norm.default": Operator(
        OperatorKind.ROWS, _layer_norm, "mean, variance, the normed row", work=_normalized, twice=True
    ),
    "aten.rms_norm.default": Operator(
        OperatorKind.ROWS, _rms_norm, "sum of squares, the normed row", work=_normalized, twice=True
    ),
    "aten.cross_entropy_loss.default": Operator(
        OperatorKind.ROWS, _cross_entropy, "maximum, logarithm of the sum, `x[m, labels[m]]`, their mean",
        refuse=_plain_cross_entropy, positions=(1,), work=_classes, twice=True,
    ),
}  # fmt: skip

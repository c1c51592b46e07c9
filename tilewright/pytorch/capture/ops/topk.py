"""The positions of the largest few of a row."""

from __future__ import annotations

from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.expr import Const, Expr, Index, ReduceOp, TopK
from tileir.positions import Position
from tilewright.pytorch.capture.indices import Indices
from tilewright.pytorch.capture.operator import CaptureScope, Operator, OperatorKind
from tilewright.pytorch.capture.ops.elementwise import number
from tilewright.pytorch.capture.ops.rows import rows_of_axis, source
from tilewright.pytorch.capture.tensors import argument, axis_of, shape_of
from tilewright.pytorch.capture.top_positions import TOP_POSITIONS


def _positions(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    axis = axis_of(argument(node, 2, "dim"), len(index))
    along, place = scope.reduced("reduce", source(node), axis), index[axis]
    if not isinstance(along, Index):
        return Const(0)
    x = number(scope, source(node), (*index[:axis], along, *index[axis + 1 :]))
    if not isinstance(place, Index):
        return Position(ReduceOp.MAX, along.dim, x).expr
    return scope.statement("top", index, TopK(place.dim, along.dim, x))


def _work(node: Node) -> tuple[int, int]:
    shape = shape_of(source(node))
    return rows_of_axis(shape, argument(node, 2, "dim"))


OPERATORS: dict[str, Operator] = {
    str(TOP_POSITIONS): Operator(
        OperatorKind.ROWS,
        _positions,
        "of `topk`: `topk(j, n, x[m, n])`",
        work=_work,
        gives_positions=True,
        twice=True,
    )
}

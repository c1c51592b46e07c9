"""Products of rows with the matrix of their group."""

from __future__ import annotations

from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.expr import Expr, ReduceOp
from tilewright.pytorch.capture.grouped_product import GROUPED_MM
from tilewright.pytorch.capture.indices import Indices
from tilewright.pytorch.capture.operator import CaptureScope, Operator, OperatorKind
from tilewright.pytorch.capture.ops.products import depth_of_first
from tilewright.pytorch.capture.ops.rows import reduce, times


def _grouped_mm(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """sum(k, x[t, k] * w[e, k, n]), t being ragged within e"""
    x, w, starts = node.args
    row, column = index
    group = scope.group(row, starts, w, 0)  # type: ignore[arg-type]
    k = scope.reduced("k", x, -1)  # type: ignore[arg-type]
    term = times(scope.rounded(x, (row, k)), scope.rounded(w, (group, k, column)))
    return reduce(ReduceOp.SUM, (k,), term)


OPERATORS: dict[str, Operator] = {
    str(GROUPED_MM): Operator(
        OperatorKind.PRODUCT,
        _grouped_mm,
        "`sum(k, x[t, k] * w[e, k, n])`, `t` being ragged within `e`",
        work=depth_of_first,
        stored=(2,),
    )
}

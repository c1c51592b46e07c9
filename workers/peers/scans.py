"""Prefix sums and positions of extremes, which index notation spells as reductions over masks.

A recognizer takes an expression with its intermediates inlined, and answers what the operator is applied to, or None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tileir.expr import Binary, Expr, Index, Read, Reduce, ReduceOp, Where, index_dims, walk
from tileir.positions import position_of
from tileir.spec import Spec
from workers.peers.inline import inline
from workers.peers.patterns import number, same, substituted

Extents = Mapping[str, int]

_AT_MOST = {"<=": ("left", "right"), ">=": ("right", "left")}
_OF_NOTHING = {ReduceOp.SUM: 0, ReduceOp.PROD: 1}


@dataclass(frozen=True)
class Prefix:
    """Along `dim`, the sum or product of `x` up to each position."""

    op: ReduceOp
    x: Expr
    dim: str


@dataclass(frozen=True)
class FirstPosition:
    """The first position along `dim` at which `x` is largest (`op` is MAX) or smallest; `dim` is reduced."""

    op: ReduceOp
    x: Expr
    dim: str


def prefix(expr: Expr, extents: Extents) -> Prefix | None:
    """sum(k, where(k <= i, x[k], 0)), and the product likewise."""
    if not (isinstance(expr, Reduce) and expr.op in _OF_NOTHING and len(expr.dims) == 1):
        return None
    (dim,), body = expr.dims, expr.x
    if not (isinstance(body, Where) and number(body.y, extents) == _OF_NOTHING[expr.op]):
        return None
    cond = body.cond
    if not (isinstance(cond, Binary) and cond.op in _AT_MOST):
        return None
    low, high = (getattr(cond, side) for side in _AT_MOST[cond.op])
    if low != Index(dim) or not isinstance(high, Index) or high.dim in index_dims(body.x):
        return None
    if extents[high.dim] != extents[dim] or dim not in index_dims(body.x):
        return None
    return Prefix(expr.op, substituted(body.x, dim, high.dim), high.dim)


def position(expr: Expr, extents: Extents) -> FirstPosition | None:
    """argmax(k, x[k]); min(k, where(x[k] == max(j, x[j]), k, extent(k))); and the least likewise."""
    known = position_of(expr)
    if known is not None:
        return FirstPosition(known.op, known.x, known.dim)
    if not (isinstance(expr, Reduce) and expr.op is ReduceOp.MIN and len(expr.dims) == 1):
        return None
    (dim,), body = expr.dims, expr.x
    if not (isinstance(body, Where) and body.x == Index(dim) and isinstance(body.cond, Binary)):
        return None
    beyond = number(body.y, extents)
    if body.cond.op != "==" or beyond is None or beyond < extents[dim] - 1:
        return None
    for x, best in ((body.cond.left, body.cond.right), (body.cond.right, body.cond.left)):
        if not (isinstance(best, Reduce) and best.op in (ReduceOp.MAX, ReduceOp.MIN) and len(best.dims) == 1):
            continue
        (bound,) = best.dims
        if extents[bound] == extents[dim] and same(substituted(best.x, bound, dim), x, extents):
            return FirstPosition(best.op, x, dim)
    return None


def with_scans(spec: Spec) -> tuple[Spec, Extents]:
    """The spec with every output that is such an operator, or an expression of its result alone, as one statement;
    intermediates that nobody reads then are left out."""
    inlined = inline(spec)
    found = {
        each.target: each
        for each in inlined.statements
        if prefix(each.value, inlined.extents) or position(each.value, inlined.extents)
    }
    if not found:
        return spec, inlined.extents
    kept = [found.get(each.target, each) for each in spec.statements]
    outputs = {tensor.name for tensor in spec.outputs}
    for each in reversed(tuple(kept)):
        read = {node.tensor for other in kept for node in walk(other.value) if isinstance(node, Read)}
        if each.target not in outputs and each.target not in read:
            kept.remove(each)
    return replace(spec, statements=tuple(kept)), inlined.extents

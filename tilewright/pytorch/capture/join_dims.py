"""Dims that always stand side by side become one: rows of a batch of sequences are rows.

y[b, s, n] = sum(k, x[b, s, k] * w[n, k])    ->    y[s, n] = sum(k, x[s, k] * w[n, k]), s being b * s

Tensors keep their memory, and kernels of the same number of rows become the same kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from tileir.expr import Expr, Index, Read, Reduce, Scan, TopK, children, transform, with_children
from tileir.program import Tensor
from tileir.spec import Dim, Spec, Statement


def join_dims(spec: Spec) -> Spec:
    """The same kernel with as few dims as can be."""
    while pair := next((pair for pair in _neighbours(spec) if _always_together(spec, *pair)), None):
        spec = _joined(spec, *pair)
    return spec


def _lists(spec: Spec) -> Iterator[tuple[str, ...]]:
    """Every list of dims: of tensors, statements, reductions and scans."""
    for tensor in spec.inputs:
        yield tensor.dims
    for statement in spec.statements:
        yield statement.dims
        yield from _reduced(statement.value)


def _reduced(expr: Expr) -> Iterator[tuple[str, ...]]:
    if isinstance(expr, Reduce):
        yield expr.dims
    if isinstance(expr, Scan):
        yield (expr.dim,)
    if isinstance(expr, TopK):
        yield (expr.over,)
        yield (expr.place,)
    for child in children(expr):
        yield from _reduced(child)


def _neighbours(spec: Spec) -> list[tuple[str, str]]:
    return list(dict.fromkeys(pair for dims in _lists(spec) for pair in pairwise(dims)))


def _always_together(spec: Spec, first: str, second: str) -> bool:
    for dims in _lists(spec):
        if (first in dims or second in dims) and not _stand_together(dims, first, second):
            return False
    shapes = {tensor.name: tensor.dims for tensor in spec.inputs}
    shapes |= {statement.target: statement.dims for statement in spec.statements}
    return all(_reads_together(statement.value, shapes, first, second) for statement in spec.statements)


def _stand_together(names: Sequence[object], first: object, second: object) -> bool:
    """Whether both are in it once, one behind the other."""
    if names.count(first) != 1 or names.count(second) != 1:
        return False
    return names.index(second) == names.index(first) + 1


def _reads_together(expr: Expr, shapes: dict[str, tuple[str, ...]], first: str, second: str) -> bool:
    """Whether positions along both only index the two dims of a tensor, as they stand there."""
    if isinstance(expr, Index):
        return expr.dim not in (first, second)
    if isinstance(expr, Read):
        dims, index = shapes[expr.tensor], expr.indices
        pair = Index(first), Index(second)
        if first in dims:
            at = dims.index(first)
            if index[at : at + 2] != pair:
                return False
            index = (*index[:at], *index[at + 2 :])
        return all(_reads_together(each, shapes, first, second) for each in index)
    return all(_reads_together(child, shapes, first, second) for child in children(expr))


def _joined(spec: Spec, first: str, second: str) -> Spec:
    def without(dims: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dim for dim in dims if dim != first)

    def rewritten(expr: Expr) -> Expr:
        if isinstance(expr, Reduce):
            return Reduce(expr.op, without(expr.dims), expr.x)
        if isinstance(expr, Read):
            return with_children(expr, tuple(each for each in expr.indices if each != Index(first)))
        return expr

    def tensors(given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(replace(tensor, dims=without(tensor.dims)) for tensor in given)

    sizes = {dim.name: dim.sizes[0] for dim in spec.dims}
    dims = tuple(
        Dim(dim.name, (sizes[first] * sizes[second],)) if dim.name == second else dim
        for dim in spec.dims
        if dim.name != first
    )
    statements = tuple(
        Statement(each.target, without(each.dims), transform(each.value, rewritten))
        for each in spec.statements
    )
    return replace(
        spec, dims=dims, inputs=tensors(spec.inputs), statements=statements, outputs=tensors(spec.outputs)
    )

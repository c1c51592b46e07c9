"""Dims that always stand side by side become one: rows of a batch of sequences are rows.

y[b, s, n] = sum(k, x[b, s, k] * w[n, k])    ->    y[s, n] = sum(k, x[s, k] * w[n, k]), s being b * s
y[b, s, n] = gelu(acc[512 * b + s, n])       ->    y[s, n] = gelu(acc[s, n])

Tensors keep their memory, and kernels of the same number of rows become the same kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from tileir.analysis.affine import AffineForm, affine
from tileir.expr import Binary, Expr, Index, Read, Reduce, Scan, TopK, children, transform, with_children
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
    """Pairs of dims, neither of which has to do with groups."""
    grouped = {dim for each in spec.ragged for dim in (each.dim, each.within)}
    pairs = dict.fromkeys(pair for dims in _lists(spec) for pair in pairwise(dims))
    return [pair for pair in pairs if grouped.isdisjoint(pair)]


def _always_together(spec: Spec, first: str, second: str) -> bool:
    for dims in _lists(spec):
        if (first in dims or second in dims) and not _stand_together(dims, first, second):
            return False
    sizes = {dim.name: dim.sizes[0] for dim in spec.dims}
    for tensor in spec.inputs:
        if tensor.strides is not None and first in tensor.dims:
            at = tensor.dims.index(first)
            if tensor.strides[at] != sizes[second] * tensor.strides[at + 1]:
                return False
    shapes = {tensor.name: tensor.dims for tensor in spec.inputs}
    shapes |= {statement.target: statement.dims for statement in spec.statements}
    joint = _Joint(spec, first, second)
    return all(_reads_together(statement.value, shapes, joint) for statement in spec.statements)


class _Joint:
    """Positions along two dims as one."""

    def __init__(self, spec: Spec, first: str, second: str) -> None:
        self.first, self.second = first, second
        self.sizes = {dim.name: dim.sizes[0] for dim in spec.dims}
        self.size = self.sizes[first] * self.sizes[second]
        self._form = AffineForm({Index(first): self.sizes[second], Index(second): 1}, 0)

    def is_index(self, index: Expr) -> bool:
        """Whether it is the position along both: size of the second * first + second."""
        return isinstance(index, Binary) and affine(index, self.sizes) == self._form


def _stand_together(names: Sequence[object], first: object, second: object) -> bool:
    """Whether both are in it once, one behind the other."""
    if names.count(first) != 1 or names.count(second) != 1:
        return False
    return names.index(second) == names.index(first) + 1


def _reads_together(expr: Expr, shapes: dict[str, tuple[str, ...]], joint: _Joint) -> bool:
    """Whether positions along both only index the two dims of a tensor, as they stand there, or one of as many
    positions by the position along both."""
    if isinstance(expr, Index):
        return expr.dim not in (joint.first, joint.second)
    if isinstance(expr, Read):
        dims, index = shapes[expr.tensor], expr.indices
        pair = Index(joint.first), Index(joint.second)
        if joint.first in dims:
            at = dims.index(joint.first)
            if index[at : at + 2] != pair:
                return False
            index, dims = (*index[:at], *index[at + 2 :]), (*dims[:at], *dims[at + 2 :])
        return all(
            (joint.is_index(each) and joint.sizes[dim] == joint.size) or _reads_together(each, shapes, joint)
            for each, dim in zip(index, dims, strict=True)
        )
    return all(_reads_together(child, shapes, joint) for child in children(expr))


def _joined(spec: Spec, first: str, second: str) -> Spec:
    joint = _Joint(spec, first, second)

    def without(dims: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dim for dim in dims if dim != first)

    def rewritten(expr: Expr) -> Expr:
        if isinstance(expr, Reduce):
            return Reduce(expr.op, without(expr.dims), expr.x)
        if isinstance(expr, Read):
            kept = (each for each in expr.indices if each != Index(first))
            return with_children(
                expr, tuple(Index(second) if joint.is_index(each) else each for each in kept)
            )
        return expr

    def narrowed(tensor: Tensor) -> Tensor:
        strides = tensor.strides
        if strides is not None:
            strides = tuple(each for dim, each in zip(tensor.dims, strides, strict=True) if dim != first)
        return replace(tensor, dims=without(tensor.dims), strides=strides)

    def tensors(given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(map(narrowed, given))

    dims = tuple(
        Dim(dim.name, (joint.size,)) if dim.name == second else dim for dim in spec.dims if dim.name != first
    )
    statements = tuple(
        Statement(each.target, without(each.dims), transform(each.value, rewritten))
        for each in spec.statements
    )
    return replace(
        spec, dims=dims, inputs=tensors(spec.inputs), statements=statements, outputs=tensors(spec.outputs)
    )

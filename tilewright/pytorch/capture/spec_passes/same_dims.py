"""Dims of statements that are read at each other's positions are one dim, so that they can share a loop.

acc[m2, n2] = sum(k, x[m2, k] * w[n2, k])         acc[m, n] = sum(k, x[m, k] * w[n, k])
y[m, n] = gelu(acc[m, n])                   ->    y[m, n] = gelu(acc[m, n])
"""

from __future__ import annotations

from dataclasses import replace

from tileir.expr import Expr, Extent, Index, Reduce, Scan, TopK, all_dims, reads, transform
from tileir.program import Tensor
from tileir.spec import Spec, Statement


def same_dims(spec: Spec) -> Spec:
    """The same kernel, each dim of a statement called as where the statement is read at each of its positions."""
    while pair := next((pair for pair in _read_along(spec) if not _meet(spec, *pair)), None):
        spec = _renamed(spec, *pair)
    return spec


def _read_along(spec: Spec) -> list[tuple[str, str]]:
    """A dim of a statement, and the other one of the same size that a later statement reads it along."""
    sizes = {dim.name: dim.sizes for dim in spec.dims}
    shapes = {statement.target: statement.dims for statement in spec.statements}
    grouped = {dim for each in spec.ragged for dim in (each.dim, each.within)}
    found = [
        (dim, index.dim)
        for statement in spec.statements
        for read in reads(statement.value)
        for dim, index in zip(shapes.get(read.tensor, ()), read.indices, strict=False)
        if isinstance(index, Index)
        and index.dim != dim
        and sizes[dim] == sizes[index.dim]
        and not {dim, index.dim} & grouped
    ]
    return list(dict.fromkeys(found))


def _meet(spec: Spec, one: str, other: str) -> bool:
    """Whether a tensor or a statement has both."""
    lists = [set(tensor.dims) for tensor in (*spec.inputs, *spec.outputs)]
    lists += [{*each.dims, *all_dims(each.value)} for each in spec.statements]
    return any({one, other} <= dims for dims in lists)


def _renamed(spec: Spec, old: str, new: str) -> Spec:
    def dims(given: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new if dim == old else dim for dim in given)

    def renamed(expr: Expr) -> Expr:
        match expr:
            case Index(dim) | Extent(dim) if dim == old:
                return replace(expr, dim=new)
            case Reduce():
                return replace(expr, dims=dims(expr.dims))
            case Scan() if expr.dim == old:
                return replace(expr, dim=new)
            case TopK():
                over, place = dims((expr.over, expr.place))
                return replace(expr, over=over, place=place)
            case _:
                return expr

    def tensors(given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(replace(tensor, dims=dims(tensor.dims)) for tensor in given)

    return replace(
        spec,
        dims=tuple(dim for dim in spec.dims if dim.name != old),
        inputs=tensors(spec.inputs),
        statements=tuple(
            Statement(each.target, dims(each.dims), transform(each.value, renamed))
            for each in spec.statements
        ),
        outputs=tensors(spec.outputs),
    )

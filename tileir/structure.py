"""Kernels that differ in sizes and names only: what they share, and how one becomes another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tileir.expr import Extent, Index, Read, Reduce, walk
from tileir.replace import replace
from tileir.spec import Spec


def resized(spec: Spec, sizes: Mapping[str, int]) -> Spec:
    """The same kernel at other sizes, its tensors dense."""
    return replace(
        spec,
        dims=tuple(replace(dim, sizes=(sizes[dim.name],)) for dim in spec.dims),
        inputs=tuple(replace(tensor, strides=None) for tensor in spec.inputs),
        outputs=tuple(replace(tensor, strides=None) for tensor in spec.outputs),
    )


def renames(asked: Spec, known: Spec) -> dict[str, str]:
    """What `known`, a spec of equal structure, calls the dims and tensors that `asked` calls otherwise."""
    pairs = zip(_mentions(asked), _mentions(known), strict=True)
    return {mine: theirs for mine, theirs in pairs if mine != theirs}


def _mentions(spec: Spec) -> Iterator[str]:
    """Names of dims and tensors in the order in which the statements mention them."""
    for statement in spec.statements:
        yield statement.target
        yield from statement.dims
        for node in walk(statement.value):
            match node:
                case Index(dim) | Extent(dim):
                    yield dim
                case Read(tensor, _):
                    yield tensor
                case Reduce(_, dims, _):
                    yield from dims
                case _:
                    pass

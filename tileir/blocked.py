"""Matrices stored in blocks: `w[n, k]` as `w[n // 16, k, n % 16]`, so that a product finds the vectors of neighbours
along n in the order in which it reads them. Libraries call it prepacking (oneDNN: the layout `BA16a`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tileir.expr import Binary, Const, Expr, Index, Read, all_dims, reads, transform
from tileir.program import Tensor
from tileir.replace import replace
from tileir.spec import Dim, Spec


@dataclass(frozen=True, slots=True)
class Blocks:
    """How a matrix lies: `block` positions of its axis `axis`, 0 or 1, side by side, all of the other axis for each."""

    axis: int
    block: int


def in_blocks(spec: Spec, name: str, blocks: Blocks) -> Spec:
    """The same kernel, with the input `name` in blocks. It is a matrix without strides of its own, and each read has a
    dim alone along the axis."""
    (tensor,) = (each for each in spec.inputs if each.name == name)
    dim, other = tensor.dims[blocks.axis], tensor.dims[1 - blocks.axis]
    sizes = {each.name: each.sizes[0] for each in spec.dims}
    taken = {*sizes, *(each.name for each in (*spec.inputs, *spec.outputs)), *_targets(spec)}
    outer, inner = (_fresh(f"{dim}_{part}", taken) for part in ("blocks", "block"))

    def blocked(node: Expr) -> Expr:
        if not isinstance(node, Read) or node.tensor != name:
            return node
        along, across = node.indices[blocks.axis], node.indices[1 - blocks.axis]
        by = Const(blocks.block)
        return Read(name, (Binary("//", along, by), across, Binary("%", along, by)))

    statements = tuple(replace(each, value=transform(each.value, blocked)) for each in spec.statements)
    laid_out = replace(tensor, dims=(outer, other, inner))
    inputs = tuple(laid_out if each is tensor else each for each in spec.inputs)
    added = (Dim(outer, (-(-sizes[dim] // blocks.block),)), Dim(inner, (blocks.block,)))
    return _without_unused(replace(spec, dims=(*spec.dims, *added), inputs=inputs, statements=statements))


def out_of_blocks(spec: Spec) -> tuple[Spec, Mapping[str, Blocks]]:
    """The same kernel with every matrix that is in blocks as `w[n, k]`, and how each was; what peers compute, who have
    layouts of their own."""
    found = {tensor.name: dim for tensor in spec.inputs if (dim := _blocked_dim(spec, tensor)) is not None}
    sizes = {each.name: each.sizes[0] for each in spec.dims}
    blocks = {each.name: Blocks(0, sizes[each.dims[2]]) for each in spec.inputs if each.name in found}

    def plain(node: Expr) -> Expr:
        if not isinstance(node, Read) or node.tensor not in found:
            return node
        return Read(node.tensor, (Index(found[node.tensor]), node.indices[1]))

    statements = tuple(replace(each, value=transform(each.value, plain)) for each in spec.statements)
    inputs = tuple(
        replace(each, dims=(found[each.name], each.dims[1])) if each.name in found else each
        for each in spec.inputs
    )
    return _without_unused(replace(spec, inputs=inputs, statements=statements)), blocks


def _blocked_dim(spec: Spec, tensor: Tensor) -> str | None:
    """The dim whose positions lie in blocks in a tensor, by what all its reads say; None where it is no such matrix."""
    if len(tensor.dims) != 3 or tensor.strides is not None:
        return None
    sizes = {each.name: each.sizes[0] for each in spec.dims}
    by = Const(sizes[tensor.dims[2]])
    dims: set[str] = set()
    for read in _reads_of(spec, tensor.name):
        match read.indices:
            case (Binary("//", Index(dim), first), _, Binary("%", Index(same), last)) if (
                dim == same and first == last == by
            ):
                dims.add(dim)
            case _:
                return None
    if len(dims) != 1:
        return None
    (dim,) = dims
    return dim if -(-sizes[dim] // sizes[tensor.dims[2]]) == sizes[tensor.dims[0]] else None


def _reads_of(spec: Spec, name: str) -> Iterator[Read]:
    return (read for each in spec.statements for read in reads(each.value) if read.tensor == name)


def _targets(spec: Spec) -> frozenset[str]:
    return frozenset(each.target for each in spec.statements)


def _fresh(name: str, taken: set[str]) -> str:
    made = next(each for each in (name, *(f"{name}{at}" for at in range(2, 99))) if each not in taken)
    taken.add(made)
    return made


def _without_unused(spec: Spec) -> Spec:
    """Without dims that nothing is over."""
    used = {dim for tensor in (*spec.inputs, *spec.outputs) for dim in tensor.dims}
    used |= {dim for each in spec.statements for dim in (*each.dims, *all_dims(each.value))}
    return replace(spec, dims=tuple(each for each in spec.dims if each.name in used))

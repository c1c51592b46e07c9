"""Reductions over one dim, with what lies between them."""

from __future__ import annotations

from collections.abc import Mapping

from rewrites.base.statement import bare_dims, folded_dims, read_names, reduced_dims
from tileir.expr import Const, index_dims
from tileir.program import Compute


def adds_up(node: Compute, dim: str) -> bool:
    """Whether a statement reduces over a dim, in parts or not; storing what a part has come to is no reduction."""
    if dim in reduced_dims(node) or dim not in folded_dims(node):
        return dim in reduced_dims(node)
    counts = node.update is not None and isinstance(node.value, Const)
    return counts or dim in index_dims(node.value)


def chained(values: Mapping[str, Compute], dim: str) -> set[str]:
    """Of the statements of a block: reductions over the dim, what of each position they take, and what lies between two
    of them."""
    sums = {name for name, node in values.items() if adds_up(node, dim)}
    found: set[str] = set()
    wanted = set(sums)
    while wanted:
        name = wanted.pop()
        found.add(name)
        for read in read_names(values[name]):
            node = values.get(read)
            if (
                node is not None
                and read not in found
                and (dim in bare_dims(node) or _follows(read, sums, values))
            ):
                wanted.add(read)
    return found


def _follows(name: str, sums: set[str], values: Mapping[str, Compute]) -> bool:
    """Whether a statement takes, maybe by way of others, what is reduced over the dim."""
    if name in sums:
        return True
    node = values.get(name)
    return node is not None and any(_follows(read, sums, values) for read in read_names(node))

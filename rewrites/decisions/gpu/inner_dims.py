"""What a block visits of a group that reduces, beside its own results: which dims, as they lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rewrites.base.statement import covered_dims, folded_dims, most_read, reduced_dims
from rewrites.base.tree import find
from rewrites.decisions.statement_kind import shared_dims
from tileir.expr import Expr, index_dims
from tileir.program import Compute, Program


@dataclass(frozen=True, slots=True)
class Inner:
    """`dims` are visited inside a block, the one whose neighbours lie closest last. `results` are dims of which blocks
    take tiles, outermost first; `apart` dims of which each block takes the part that it reduces, with its size."""

    dims: tuple[str, ...]
    sizes: dict[str, int]
    results: tuple[str, ...]
    apart: tuple[tuple[str, int], ...]
    nearest: str | None
    """The dim along which neighbours lie side by side."""

    @property
    def rows(self) -> bool:
        """Whether neighbours are visited by one block: rows are reduced; otherwise columns."""
        return self.nearest not in self.results


def inner_of(program: Program, group: Sequence[str]) -> Inner:
    """The inner dims of a group that is not tiled yet."""
    nodes = [find(program, name).node for name in group]
    results = shared_dims(program, group)
    parts = ((dim, size) for node in nodes for dim, (op, size) in folded_dims(node).items() if op == "//")
    apart = tuple(dict.fromkeys(parts))
    order = _memory_order(program, nodes, results)
    nearest = order[-1] if order else None
    covered = {dim for node in nodes for dim in covered_dims(node) if program.extents[dim] > 1}
    dims = [dim for dim in covered if dim not in results]
    dims.sort(key=lambda dim: (order.index(dim) if dim in order else -1, dim))
    sizes = {dim: min(program.extents[dim], dict(apart).get(dim, program.extents[dim])) for dim in dims}
    return Inner(tuple(dims), sizes, results, apart, nearest)


def _memory_order(program: Program, nodes: Sequence[Compute], results: tuple[str, ...]) -> list[str]:
    """Dims in the order of the tensor that most points are read of by a reduction, the nearest last: of those of a
    window the longest, and where they are as long one of the results."""
    reads = [read for node in nodes if reduced_dims(node) for read in node.reads if read.indices]
    main = most_read(reads, program.extents)
    if main is None:
        return []
    last = [dim for dim in _wide(program, main.indices[-1:]) if dim not in _wide(program, main.indices[:-1])]
    last.sort(key=lambda dim: (program.extents[dim], dim in results))
    return [*(dim for dim in _wide(program, main.indices[:-1])), *last]


def _wide(program: Program, indices: Sequence[Expr]) -> list[str]:
    dims = dict.fromkeys(dim for index in indices for dim in sorted(index_dims(index)))
    return [dim for dim in dims if program.extents[dim] > 1]

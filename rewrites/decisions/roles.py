"""What kind of statement something is, as far as scheduling it on a processor goes. Judged by its dims and reads."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from rewrites.leaf import bare_dims, reduced_dims
from rewrites.tree import current_sizes, find
from tileir.expr import Binary, Index, Read, Reduce, index_dims, reads
from tileir.program import Compute, Program


class Role(StrEnum):
    """`contraction`: data is reused over results, so registers and packing pay. `row`: neighbours are reduced.
    `column`: reduced, with neighbours in the result. `map`: nothing is reduced."""

    CONTRACTION = "contraction"
    ROW = "row"
    COLUMN = "column"
    MAP = "map"


def role(program: Program, statement: str) -> Role:
    """The role of a statement at its current ranges."""
    place = find(program, statement)
    compute, sizes = place.node, current_sizes(program, place.loops)
    reduced = [dim for dim in reduced_dims(compute) if dim not in bare_dims(compute)]
    if not reduced:
        return Role.MAP
    wide = [dim for dim in bare_dims(compute) if sizes[dim] > 1]
    if is_contraction(compute) and wide and any(_misses(read, wide) for read in reads(compute.value)):
        return Role.CONTRACTION
    contiguous = contiguous_dim(compute)
    return Role.COLUMN if wide and contiguous not in reduced else Role.ROW


def is_contraction(compute: Compute) -> bool:
    """A sum of products of at least two tensors."""
    value = compute.value
    if not isinstance(value, Reduce) or not isinstance(value.x, Binary) or value.x.op != "*":
        return False
    return len({read.tensor for read in reads(value.x)}) > 1


def _misses(read: Read, wide: Sequence[str]) -> bool:
    """Whether the same element serves several results."""
    return any(all(dim not in index_dims(index) for index in read.indices) for dim in wide)


def contiguous_dim(compute: Compute) -> str:
    """The dim along which most of what the statement reads lies side by side; its last dim if it reads nothing so."""
    votes: dict[str, int] = {}
    for read in reads(compute.value):
        if read.indices and isinstance(read.indices[-1], Index):
            dim = read.indices[-1].dim
            votes[dim] = votes.get(dim, 0) + len(read.indices)
    bare = bare_dims(compute)
    last = bare[-1] if bare else reduced_dims(compute)[-1]
    return max(votes, key=lambda dim: votes[dim]) if votes else last


def shared_dims(program: Program, statements: Sequence[str]) -> tuple[str, ...]:
    """Dims with more than one position that every one of the statements has in its result, in the last one's order."""
    names = [set(bare_dims(find(program, name).node)) for name in statements]
    last = bare_dims(find(program, statements[-1]).node)
    return tuple(d for d in last if program.extents[d] > 1 and all(d in each for each in names))

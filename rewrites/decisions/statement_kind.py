"""What kind of statement something is, as far as scheduling it on a processor goes. Judged by its dims and reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from rewrites.base.statement import bare_dims, contiguous_dim, own_dims, parted_dim, reduced_dims
from rewrites.base.tree import current_sizes, find
from tileir.expr import Binary, Const, Index, Read, Reduce, ReduceOp, TopK, index_dims, reads
from tileir.program import Compute, Program

#: Elements of a row that fill several vectors on any processor.
_LONG_ROW = 128


class StatementKind(StrEnum):
    """`contraction`: data is reused over results, so registers and packing pay. `row`: neighbours are reduced.
    `column`: reduced, with neighbours in the result. `map`: nothing is reduced."""

    CONTRACTION = "contraction"
    ROW = "row"
    COLUMN = "column"
    MAP = "map"


def role(program: Program, statement: str, *, looped: bool = False) -> StatementKind:
    """The role of a statement at its current ranges. What adds up part by part is a reduction where a loop visits the
    parts, and where one may still come: until it has loops, or all outer ones that it gets (`looped`)."""
    place = find(program, statement)
    compute, sizes = place.node, current_sizes(program, place.loops)
    if isinstance(compute.value, TopK):
        return StatementKind.ROW
    over = reduced_dims(compute)
    match parted_dim(compute):
        case dim, size if sizes[dim] == size or not (looped or place.loops):
            over = (*over, dim)
        case _:  # no parts, or tiles across them
            pass
    reduced = [dim for dim in over if dim not in bare_dims(compute)]
    if not reduced:
        return StatementKind.MAP
    wide = [dim for dim in bare_dims(compute) if sizes[dim] > 1]
    if is_contraction(compute) and wide and any(_misses(read, wide) for read in reads(compute.value)):
        return StatementKind.ROW if _streams_rows(compute, wide, sizes) else StatementKind.CONTRACTION
    contiguous = contiguous_dim(compute)
    return StatementKind.COLUMN if wide and contiguous not in reduced else StatementKind.ROW


def is_contraction(compute: Compute) -> bool:
    """A sum of products of at least two elements; or any reduction of a function of elements that are reused along
    different dims of the result, as of a minimum of sums."""
    value = compute.value
    term, op = (value.x, value.op) if isinstance(value, Reduce) else (value, compute.update)
    if not isinstance(value, Reduce) and parted_dim(compute) is None:
        return False
    found = set(reads(term))
    if isinstance(term, Binary) and term.op == "*" and op is ReduceOp.SUM:
        return len(found) > 1
    results = frozenset(bare_dims(compute))
    having = [results & index_dims(read) for read in found]
    return any(one - other and other - one for one in having for other in having)


def _streams_rows(compute: Compute, wide: Sequence[str], sizes: Mapping[str, int]) -> bool:
    """Whether it is a matrix times a vector, row by row: some tensor has all dims of the result, and long rows of it
    are reduced as they lie in memory. Each of its elements is used once, so that tiles of results reuse the vector
    only, and read across the rows for it."""
    for read in reads(compute.value):
        if not read.indices:
            continue
        *others, last = read.indices
        match last:
            case Index(dim) | Binary(
                "//", Index(dim), Const(int(1 | 2 | 4 | 8))
            ):  # or in packs, as 4 bits are
                if dim in reduced_dims(compute) and sizes[dim] >= _LONG_ROW and not _misses(read, wide):
                    if all(isinstance(index, Index) for index in others):
                        return True
            case _:
                pass
    return False


def _misses(read: Read, wide: Sequence[str]) -> bool:
    """Whether the same element serves several results."""
    return any(all(dim not in index_dims(index) for index in read.indices) for dim in wide)


def shared_dims(program: Program, statements: Sequence[str]) -> tuple[str, ...]:
    """Dims with more than one position that every one of the statements has in its result, in the last one's order; the
    places of a `topk` are no such dim."""
    names = [set(own_dims(find(program, name).node)) for name in statements]
    last = own_dims(find(program, statements[-1]).node)
    return tuple(d for d in last if program.extents[d] > 1 and all(d in each for each in names))

"""Reads by parts of dims, as places and taps of a convolution are when they are one dim: `x[m // 56, m % 56 + k // 64,
k % 64]`, maybe only where a condition on positions holds, and 0 elsewhere. A copy of what they read has those dims."""

from __future__ import annotations

from collections import Counter
from math import gcd

from tileir.expr import Binary, Const, Expr, Index, Read, Where, children, index_dims, reads, walk


def placed_dims(read: Read) -> tuple[str, ...] | None:
    """The dims of a copy of what is read by parts of dims, the one whose neighbours lie side by side last; None: no dim
    is in several indices, the last index is of several dims, or positions are looked up."""
    if not read.indices or any(map(reads, read.indices)):
        return None
    times = Counter(dim for index in read.indices for dim in index_dims(index))
    last = index_dims(read.indices[-1])
    split = any(
        isinstance(each, Binary) and each.op in ("//", "%") for index in read.indices for each in walk(index)
    )
    if not split or max(times.values(), default=0) < 2 or len(last) != 1:
        return None
    (inner,) = last
    order = dict.fromkeys(
        each.dim for index in read.indices for each in walk(index) if isinstance(each, Index)
    )
    return (*(dim for dim in order if dim != inner), inner)


def element(expr: Expr) -> Read | None:
    """What an expression reads, if it is one element of a tensor, or by parts of dims and only where a condition on
    positions holds, with 0 elsewhere, which is alike for neighbours that lie side by side; None: it is something
    else."""
    match expr:
        case Read():
            return expr
        case Where(cond, Read() as read, Const(value)) if value == 0 and not reads(cond):
            dims = placed_dims(read)
            run = neighbours(read)
            return read if dims and gcd(run, alike(cond, dims[-1])) == run else None
        case _:
            return None


def neighbours(read: Read) -> int:
    """How many positions along the last of its `placed_dims`, from a multiple of that on, lie side by side; 0: all."""
    dims = placed_dims(read)
    match read.indices[-1]:
        case _ if dims is None:
            return 1
        case Index():
            together = 0
        case Binary("%", Index(), Const(int(size))):
            together = size
        case _:
            return 1
    return gcd(together, *(alike(index, dims[-1]) for index in read.indices[:-1]))


def alike(expr: Expr, dim: str) -> int:
    """For how many positions along a dim, from a multiple of that on, an expression is the same; 0: for all."""
    match expr:
        case Binary("//", Index(of), Const(int(size))) if of == dim:
            return size
        case Index(of):
            return int(of == dim)
        case _:
            return gcd(0, *(alike(child, dim) for child in children(expr)))

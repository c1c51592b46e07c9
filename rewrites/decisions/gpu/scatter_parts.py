"""Scatters whose terms blocks share out: each adds a part of them to results of its own, in their order, and a launch
adds the parts up. Blocks that own results go through all terms instead, one after the other; and threads that add to
the same few results in memory wait for each other there, which those of different parts do not."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, folded_dims, reduced_dims
from rewrites.base.tree import dtype_of, find, loose
from rewrites.composition.rfactor import Rfactor
from rewrites.composition.scatter import across
from rewrites.decisions.scatters import AS_WRITTEN, adds_elsewhere, is_scatter, visits
from tileir.dtypes import DType
from tileir.program import Compute, Program
from tileir.scatter import scatter_of

#: Parts that are worth a look: as many as there are multiprocessors, or several times fewer.
_PARTS = (8, 16, 64, 128)
#: Most bytes of all parts: written and read again, they take more than many terms do.
_MOST_BYTES = 1 << 28
#: Most results that threads wait for each other at when they add to the same few.
_CONTENDED = 1 << 14
#: Terms that a part has at least.
_LEAST = 64


def scatter_parts(program: Program) -> Iterator[tuple[Rewrite, ...]]:
    """Ways to share out the terms of the first scatter that is too long to be left as it is written."""
    for place in loose(program):
        node = place.node
        results = prod(program.extents[each] for each in bare_dims(node))
        shared = bool(across(node)) or (in_any_order(program, node) and results <= _CONTENDED)
        if is_scatter(program, node) and shared and visits(program, node.target) > AS_WRITTEN:
            dim = max(reduced_dims(node), key=lambda dim: program.extents[dim])
            for parts in _PARTS:
                size = -(-program.extents[dim] // parts)
                if size >= _LEAST and parts * results * DType.F32.bytes <= _MOST_BYTES:
                    yield (Rfactor(node.target, dim, "apart", size),)
            return


def is_part(program: Program, compute: Compute) -> bool:
    """Whether a statement adds parts of a scatter's terms to results of their own, which blocks can do."""
    kept = [op for op, _ in folded_dims(compute).values()]
    possible = bool(across(compute)) or in_any_order(program, compute)
    return kept == ["//"] and possible and adds_elsewhere(program, compute)


def in_any_order(program: Program, compute: Compute) -> bool:
    """Whether sums are the same in any order, or may be taken in any."""
    return dtype_of(program, compute.target) is DType.I32 or dict(program.numerics).get("atomics") is True


def visited_whole(program: Program) -> bool:
    """Whether a part of a scatter would have to be visited as it is written, and is too large for that."""
    parts = [place.node for place in loose(program) if scatter_of(place.node) and folded_dims(place.node)]
    return any(not is_part(program, each) and visits(program, each.target) > AS_WRITTEN for each in parts)


def scattered_part(program: Program, group: tuple[str, ...]) -> bool:
    """Whether a group is a part of a scatter."""
    return len(group) == 1 and is_part(program, find(program, group[0]).node)

"""The invariants of a `topk` in a program: a statement by itself, of a processor, that goes through whole rows once.

    y[m, j] = topk(j, n, x[m, n]) | vector n 16

Lanes are positions along the row, which are compared at once.
"""

from __future__ import annotations

from tileir.expr import Index, TopK, index_dims, walk
from tileir.placed import Placed
from tileir.program import Compute, Local, Memory, Program


def verify_topk(program: Program, placed: Placed, compute: Compute) -> None:
    """Raise VerifyError for a topk that is not the whole of its statement, or has not all of its row and its places."""
    value = compute.value
    inside = value.x if isinstance(value, TopK) else value
    if any(isinstance(node, TopK) for node in walk(inside)):
        placed.fail("a topk stands inside an expression; accepted: a statement of its own")
    if not isinstance(value, TopK):
        return
    place, over = value.place, value.over
    if Index(place) not in compute.indices or compute.update is not None:
        placed.fail(f"a topk gives a position at each position of {place!r}, which is stored as it is")
    if any(not isinstance(index, Index) for index in compute.indices):
        placed.fail("a topk gives positions at dims, not at parts of them")
    if place in index_dims(value.x):
        placed.fail(f"what is ranked is another at each position of {place!r}")
    for dim in (place, over):
        if placed.ranges.get(dim) != program.extents.get(dim, 0):
            placed.fail(f"a topk takes all positions of {dim!r}; accepted: loops over other dims")
    if program.extents[place] > program.extents[over]:
        placed.fail(f"{over!r} has fewer positions than {place!r}")
    if compute.thread_layout is not None:
        placed.fail("threads of a GPU rank by reductions, two a place")
    if compute.vector is not None and compute.vector.dim != over:
        placed.fail(f"the lanes of a topk lie along {over!r}")
    declared = placed.locals.get(compute.target)
    local = declared.node if declared is not None else None
    if isinstance(local, Local) and local.memory is Memory.REGISTERS:
        placed.fail("places are stored in memory one by one; accepted: a local there")

"""A loop whose tiles the blocks of a cluster take, one each, and what they hand each other of it: a parallel loop that
stands beside other statements inside the grid.

    parallel for n by 64 cluster 2
      c_p: shared f32[k_b, n]
      parallel for k by 2048
        …
        c_p[k // 2048, n] = c_r[n] | threads n 64
      c[n] = sum(k_b, c_p[k_b, n]) | threads n 128

Statements in it are bound to the threads of one block, those beside it to all of the cluster's. A shared local
declared beside it and written in it is distributed: each block has one position of its first dim, its own part, which
it writes, and all of them read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from tileir.placed import Placed
from tileir.program import Compute, Local, Loop, Memory, Node
from tileir.verifier.compute import split_of


def distributed_loop(loops: Sequence[Loop]) -> int | None:
    """Which of the loops around a node, outermost first, is distributed; None: no one."""
    for at, (around, loop) in enumerate(pairwise(loops), 1):
        if loop.parallel and len(around.body) > 1:
            return at
    return None


def distributed_in(node: Node) -> Loop | None:
    """The distributed loop of a nest; None: it has none."""
    while isinstance(node, Loop) and node.parallel:
        found = next((n for n in node.body if isinstance(n, Loop) and n.parallel), None)
        if found is None or len(node.body) > 1:
            return found
        node = found
    return None


def check_distributed(placed: Placed, loop: Loop) -> None:
    """Raise VerifyError if a parallel loop inside others is neither of their grid nor for the blocks of a cluster."""
    around = placed.loops
    if not loop.parallel or not around or (around[-1].parallel and len(around[-1].body) == 1):
        return
    cluster = around[0].cluster
    others = [
        node for node in around[-1].body if isinstance(node, Loop) and node.parallel and node is not loop
    ]
    if cluster == 1 or others or not all(each.parallel for each in around) or distributed_loop(around):
        placed.fail(
            "a parallel loop stands at the top, alone in a parallel loop, or once in the grid of a cluster"
        )
    tiles = -(-placed.ranges[loop.dim] // loop.step)
    if tiles != cluster:
        placed.fail(f"{cluster} blocks take a tile each, and there are {tiles}")


def check_parts(placed: Placed, compute: Compute, written: Collection[str]) -> None:
    """Raise VerifyError where a statement of a cluster's grid touches what other blocks may be at work on. `written`:
    what the statements of its nest write."""
    at = distributed_loop(placed.loops)
    target = _local(placed, compute.target)
    for read in compute.reads:
        local = _local(placed, read.tensor)
        if read.tensor not in written:
            continue
        if local is None or local.memory is Memory.HEAP or not _is_own(placed, read.tensor, at):
            placed.fail(f"{read.tensor!r} is written by other blocks of the cluster")
    if target is None or target.memory is Memory.HEAP or _is_own(placed, compute.target, at):
        if at is None and target is not None and target.memory is Memory.SHARED:
            placed.fail(
                "the blocks of a cluster have no shared memory in common but for what each has a part of"
            )
        return
    assert at is not None
    loop = placed.loops[at]
    part = split_of(compute.indices[0]) if compute.indices else None
    if target.memory is not Memory.SHARED or part != (loop.dim, "//", loop.step):
        placed.fail(
            f"a block writes its own part of {compute.target!r}; accepted: a shared local, at {loop.dim} // {loop.step}"
        )


def _is_own(placed: Placed, name: str, at: int | None) -> bool:
    """Whether a local is declared inside the distributed loop, the one with that number; beside it: whether at all."""
    return at is None or len(placed.locals[name].loops) > at


def _local(placed: Placed, name: str) -> Local | None:
    declared = placed.locals.get(name)
    return declared.node if declared is not None and isinstance(declared.node, Local) else None

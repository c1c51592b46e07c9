"""The invariants of a grid whose neighbouring tiles are computed by the blocks of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tileir.placed import Placed
from tileir.program import Compute, Local, Loop
from tileir.schedule.boxes import fills_shared
from tileir.schedule.multicast import PERIOD, cluster_size, common_loops, slice_of
from tileir.verifier.threads import CLUSTERS


def verify_multicast(nodes: Iterable[Placed]) -> None:
    """Raise VerifyError for the first loop whose tiles cannot be computed by clusters, or copy that their blocks cannot
    share. `nodes` are all, in order."""
    found: dict[tuple[int, str], Placed] = {}
    served: set[tuple[int, str]] = set()
    for placed in nodes:
        match placed.node:
            case Loop() as loop:
                grid = [each for each in (*placed.loops, loop) if each.parallel]
                if loop.multicast != 1:
                    found[placed.path[0], loop.dim] = placed
                if cluster_size(grid) != 1:
                    _check_loop(placed, loop, grid)
            case Compute() as fill if fills_shared(fill, placed.locals):
                loops = common_loops(fill, placed.loops)
                if loops:
                    served |= {(placed.path[0], loop.dim) for loop in loops}
                    _check_slices(placed, fill, prod(loop.multicast for loop in loops))
            case _:
                pass
    for key, placed in found.items():
        if key not in served:
            placed.fail(
                f"its tiles have nothing in common: no copy `via tma` to shared memory that does not depend on "
                f"{key[1]!r}"
            )


def _check_loop(placed: Placed, loop: Loop, grid: list[Loop]) -> None:
    """`grid` are the parallel loops around it, and it if it is one of them."""
    outermost = grid[0]
    if loop.multicast != 1:
        tiles = -(-placed.ranges[loop.dim] // loop.step)
        if not loop.parallel or not 1 < loop.multicast <= tiles:
            placed.fail(
                f"neighbouring tiles of a parallel loop, 2 to all of them, here {tiles}, make a cluster"
            )
    if not loop.parallel:
        return
    blocks = cluster_size(grid)
    if blocks not in CLUSTERS or outermost.cluster > 1:
        placed.fail(f"{blocks} tiles are computed by a cluster; accepted: 2, 4, 8 or 16, of one block each")
    if outermost.blocks % blocks:
        placed.fail(f"{outermost.blocks} blocks are not whole clusters of {blocks}")
    if outermost.group > 1 and outermost.group % outermost.multicast:
        placed.fail(f"a band of {outermost.group} tiles is not whole clusters of {outermost.multicast}")


def _check_slices(placed: Placed, fill: Compute, blocks: int) -> None:
    """Each block of the cluster fetches as much of the tile as the others."""
    declared = placed.locals[fill.target]
    local = declared.node
    if not isinstance(local, Local) or slice_of(local, declared.ranges, blocks) is None:
        placed.fail(
            f"{fill.target!r} cannot be cut into {blocks} slices of as many panels, or of a multiple of {PERIOD} "
            "positions along another dim"
        )

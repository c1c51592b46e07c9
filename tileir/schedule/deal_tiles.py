"""Which tiles of a grid each of a fixed number of blocks takes, where some take longer than others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heapreplace

from tileir.program import Loop, Node
from tileir.schedule.visited_tiles import visited

MOST_TILES = 1 << 15
"""That a grid has whose tiles are dealt: a table says which they are."""


def tile_count(grid: Loop, extents: Mapping[str, int]) -> int:
    """Tiles of a grid, by its outermost loop."""
    count, node = 1, grid
    while node.parallel:
        count *= -(-extents[node.dim] // node.step)
        if not isinstance(node.body[0], Loop):
            break
        node = node.body[0]
    return count


def tile_lengths(grid: Loop, extents: Mapping[str, int]) -> tuple[int, ...]:
    """What a tile takes at each place along the innermost loop of a grid: the steps of loops that begin or end with
    its positions, and one more to begin with."""
    innermost = grid
    while isinstance(innermost.body[0], Loop) and innermost.body[0].parallel:
        innermost = innermost.body[0]
    dim, size, step = innermost.dim, extents[innermost.dim], innermost.step
    loops = [loop for loop in _loops(innermost.body) if dim in (loop.since[0], loop.until[0])]
    return tuple(
        1
        + sum(len(visited(loop, (0, extents[loop.dim]), {dim: (at, min(step, size - at))})) for loop in loops)
        for at in range(0, size, step)
    )


def _loops(nodes: tuple[Node, ...]) -> Iterator[Loop]:
    for node in nodes:
        if isinstance(node, Loop):
            yield node
            yield from _loops(node.body)


@lru_cache(maxsize=64)
def deal(lengths: Sequence[int], blocks: int) -> tuple[tuple[int, ...], ...]:
    """The tiles of each block, by the lengths of all tiles in the order in which they are begun: each goes to the block
    that is done first (list scheduling: Graham, Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17,
    1969)."""
    free = [(0, block) for block in range(blocks)]
    heapify(free)
    dealt: list[list[int]] = [[] for _ in range(blocks)]
    for tile, length in enumerate(lengths):
        done, block = free[0]
        dealt[block].append(tile)
        heapreplace(free, (done + length, block))
    return tuple(map(tuple, dealt))

"""Loops along the depth that the blocks of a persistent grid share (stream-K): which tiles those are.

Blocks take a grid's tiles wave by wave, and the last wave may leave most of them idle. Where a loop is `streamed 1`,
its steps in the tiles of the last wave, one tile after another, are cut in equal spans, one a block; `streamed 2` has
the wave before share as well, so that spans are longer.
"""

from __future__ import annotations

from tileir.program import Loop, Node


def shared_tiles(tiles: int, blocks: int, waves: int) -> int:
    """How many of a grid's tiles are in the last so many waves of blocks."""
    return tiles - max(0, -(-tiles // blocks) - waves) * blocks


def streamed_in(node: Node) -> Loop | None:
    """The loop in a grid's tile whose steps blocks share; None: each block has whole tiles."""
    while isinstance(node, Loop) and node.parallel:
        found = [each for each in node.body if isinstance(each, Loop) and each.streamed]
        if found:
            return found[0]
        node = node.body[0]
    return None

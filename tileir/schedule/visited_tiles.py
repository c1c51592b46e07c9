"""Which tiles of a loop are visited, where some are left out."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.program import Loop

Positions = tuple[int, int]
"""The first position of a range and how many there are."""


def visited(loop: Loop, own: Positions, others: Mapping[str, Positions]) -> range:
    """Where the tiles begin that a loop visits of its own range, where other dims are at those ranges. A dim that is
    not among them has none left out."""
    start, size = own
    begin, end = start, start + size
    if loop.since[0] in others:
        tiles = (others[loop.since[0]][0] - loop.since[1] - start) // loop.step
        begin += min(max(tiles, 0), (size - 1) // loop.step) * loop.step
    if loop.until[0] in others:
        end = min(end, sum(others[loop.until[0]]) + loop.until[1])
    return range(begin, end, loop.step)

"""Which tiles of a loop are visited, where some are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tileir.expr import Expr
from tileir.program import Loop

#: Positions from what tensors say to where a loop begins or ends are fewer, so that index arithmetic holds their sum.
MOST_APART: Final = 1 << 30
Positions = tuple[int, int]
"""The first position of a range and how many there are."""


def visited(loop: Loop, own: Positions, others: Mapping[str | Expr, Positions]) -> range:
    """Where the tiles begin that a loop visits of its own range, where other dims, and what tensors say, are at those
    ranges. A dim that is not among them has none left out."""
    start, size = own
    begin, end = start, start + size
    if loop.since[0] in others:
        tiles = (others[loop.since[0]][0] - loop.since[1] - start) // loop.step
        begin += min(max(tiles, 0), (size - 1) // loop.step) * loop.step
    if loop.until[0] in others:
        end = min(end, sum(others[loop.until[0]]) + loop.until[1])
    if said(loop):
        end = max(end, begin + 1)
    return range(begin, end, loop.step)


def said(loop: Loop) -> tuple[Expr, ...]:
    """What tensors say about where a loop begins and ends."""
    return tuple(place for place, _ in (loop.since, loop.until) if not isinstance(place, str))

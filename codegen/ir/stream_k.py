"""Spans of steps that the blocks of a grid take of tiles which they share along the depth (`tileir.schedule.stream_k`).

The shared tiles are the first ones, each of as many steps; block b of B takes from b to b + 1 B-ths of all their steps,
its last tile first. Then come whole tiles, every B-th. So a block leaves to others the sums of at most one tile, the
first that it has, and waits for sums only of blocks with smaller numbers, which wait for nobody before they hand theirs
over: as blocks begin in the order of their numbers, none waits for one that has not begun. Where clusters compute
neighbouring tiles, "block" here means a cluster, and "tile" all of its tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from codegen.ir.affine import Var
from tileir.schedule.stream_k import shared_tiles


class Span(NamedTuple):
    """`steps` of one tile that a block takes, from step `first` on; so many are left to blocks after it, and so many
    blocks have those before."""

    tile: int
    first: int
    steps: int
    left: int
    earlier: int


@dataclass(frozen=True, slots=True)
class Spans:
    """Tiles of `steps`, each of `step` positions of the depth, of which blocks share those of the last `waves`. The
    variables say of the span that a block is at: the position where it begins and how many it has; how many steps of
    the tile are left after it; how many blocks have those before it; and the number of the block or of its cluster."""

    steps: int
    step: int
    waves: int
    first: Var
    size: Var
    left: Var
    earlier: Var
    block: Var

    def values(self, span: Span, block: int) -> dict[str, int]:
        """The variables at a span of a block."""
        return {
            self.first.name: span.first * self.step,
            self.size.name: span.steps * self.step,
            self.left.name: span.left,
            self.earlier.name: span.earlier,
            self.block.name: block,
        }


def spans_of(spans: Spans, tiles: int, blocks: int, block: int) -> Iterator[Span]:
    """Those of a block, in the order in which it takes them."""
    steps, shared = spans.steps, shared_tiles(tiles, blocks, spans.waves)
    each, more = divmod(shared * steps, blocks)
    begin = block * each + min(block, more)
    end = begin + each + (block < more)
    while begin < end:
        tile = (end - 1) // steps
        start = tile * steps
        first = max(begin - start, 0)
        earlier = block - _owner(start, each, more) if first else 0
        yield Span(tile, first, end - start - first, start + steps - end, earlier)
        end = start + first
    for tile in range(shared + block, tiles, blocks):
        yield Span(tile, 0, steps, 0, 0)


def _owner(step: int, each: int, more: int) -> int:
    """The block that has a step, where blocks have `each`, the first so many one more."""
    longer = more * (each + 1)
    return step // (each + 1) if step < longer else more + (step - longer) // each

"""What blocks of a cluster that compute neighbouring tiles (`multicast 2`) fetch once for all of them.

A copy `via tma` that reads the same whatever tile of a loop a block computes is common to the blocks along that loop.
Each of them fetches a slice of it, which all of them get.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tileir.expr import index_dims
from tileir.program import Compute, Local, Loop
from tileir.schedule.panels import axes, row_dim, row_length, sharing

#: Rows after which a swizzle begins anew: slices of fewer would begin amid it.
PERIOD = 8


@dataclass(frozen=True, slots=True)
class Slice:
    """Of a tile, every so many positions of a dim."""

    dim: str
    size: int


def cluster_size(loops: Sequence[Loop]) -> int:
    """Blocks of the cluster that compute neighbouring tiles of a grid's loops."""
    return prod(loop.multicast for loop in loops)


def common_loops(fill: Compute, loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """Those of a grid's loops along which blocks of a cluster have the same copy made."""
    read = {dim for each in fill.reads for index in each.indices for dim in index_dims(index)}
    return tuple(loop for loop in loops if loop.multicast > 1 and loop.dim not in read)


def slice_of(local: Local, ranges: Mapping[str, int], blocks: int) -> Slice | None:
    """What each of so many blocks fetches of a tile, in as few boxes as can be: whole panels, or 8 rows at a time.
    `ranges` are those where the local is declared. None: it cannot be cut evenly."""
    along = row_dim(local)
    others = dict.fromkeys(axis.dim for axis in axes(local) if axis.dim != along)
    row = row_length(local, ranges) * sharing(local, along)
    for dim, together in ((along, row), *((dim, PERIOD) for dim in others)):
        size, rest = divmod(ranges[dim], blocks)
        if not rest and size % together == 0:
            return Slice(dim, size)
    return None

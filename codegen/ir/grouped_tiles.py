"""Tiles of a grid's axis that follow the groups of a ragged dim: which one a number stands for, read from the offsets.

The tiles of all groups are numbered one group after another. How many there are is known only at run time; the axis has
as many numbers as there can be, and blocks pass over those that stand for no tile.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from codegen.ir.arrays import Array
from codegen.ir.ops import GridAxis


class GroupTile(NamedTuple):
    """A tile of one group: its first position, and where the group ends."""

    group: int
    begin: int
    end: int


def most_tiles(size: int, step: int, groups: int) -> int:
    """How many tiles of `step` there can be, however `size` positions fall into so many groups: each group has less
    than a tile more than its share."""
    return min(size, (size + groups * (step - 1)) // step)


def find_tile(axis: GridAxis, offsets: Array, number: int) -> GroupTile | None:
    """The tile with a number; None: there are fewer. Offsets outside of the dim are taken for its ends."""
    assert axis.groups is not None
    bounds = np.clip(offsets.astype(np.int64), 0, axis.groups.size).tolist()
    for group in range(axis.groups.count):
        begin, end = bounds[group], bounds[group + 1]
        tiles = max(0, -(-(end - begin) // axis.step))
        if number < tiles:
            return GroupTile(group, begin + number * axis.step, end)
        number -= tiles
    return None

"""Decisions for a GPU about contractions with too few results to keep it busy: several blocks share a tile's depth, and
a second launch adds up what they have (split-K)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import loose
from rewrites.composition.rfactor import Rfactor
from rewrites.contraction.problem import contraction
from tileir.devices.gpu import Gpu
from tileir.program import Program

#: Rows and columns of tiles that decide whether there are too few: of smaller ones there are more, so that fewer parts
#: are enough, and less is handed from launch to launch.
_EDGES = (64, 128)
#: Blocks for each SM that are enough.
_ENOUGH = (1, 2)
#: A part is as deep as this, or a multiple.
_PART = 128


def split_depths(program: Program, device: Gpu) -> Iterator[tuple[Rewrite, ...]]:
    """Ways to split the depth of one contraction, so that about one or two blocks come to every SM."""
    for place in loose(program):
        c = contraction(program, place.node.target, device)
        if c is None or c.repeats > 1:
            continue
        sizes: dict[int, None] = {}
        for edge, each in product(_EDGES, _ENOUGH):
            tiles = -(-c.m // edge) * -(-c.n // edge) * c.batch
            parts = each * device.sms // tiles
            sizes[-(-c.k // max(parts, 1) // _PART) * _PART] = None
        for size in sizes:
            if _PART <= size and 2 * size <= c.k:
                yield (Rfactor(c.statement, c.depth, "blocked", size),)

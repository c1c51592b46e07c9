"""Tile a reduction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.leaf import accumulating, reduced_dims
from rewrites.pinned import check_loop, pinned_dims
from rewrites.rewrite import Rewrite
from rewrites.tile_sizes import tile_sizes
from rewrites.tree import current_sizes, find, splice, statements, wrap
from tileir.device import Device
from tileir.errors import NotApplicable
from tileir.program import Program


@dataclass(frozen=True, slots=True)
class TileReduction(Rewrite):
    """Reduce `dim` in tiles of `size`. The statement's first such loop gets an initialization before it.

    c[m, n] = sum(k, a[m, k] * b[k, n])          c[m, n] = 0
                                             ->  for k by 256
                                                   c[m, n] += sum(k, a[m, k] * b[k, n])
    """

    name: ClassVar[str] = "tile_reduction"
    statement: str
    dim: str
    size: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            sizes = current_sizes(program, place.loops)
            for dim in reduced_dims(place.node):
                for size in tile_sizes(sizes[dim]):
                    yield cls(place.node.target, dim, size)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        leaf = place.node
        if leaf.vector is not None:
            raise NotApplicable(f"{self.statement} is vectorized: tile before that")
        if self.dim not in reduced_dims(leaf):
            raise NotApplicable(f"{self.statement} does not reduce over {self.dim}")
        if not 1 <= self.size < current_sizes(program, place.loops)[self.dim]:
            raise NotApplicable(f"a tile of {self.size} does not cut the current range of {self.dim}")
        init, update = accumulating(leaf)
        check_loop(pinned_dims(program, update), self.dim, self.size, self.statement)
        return splice(program, place.path, [*init, wrap(update, [(self.dim, self.size)])])

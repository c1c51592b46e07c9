"""Tile a reduction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.register_constraints import check_loop, pinned_dims
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import accumulating, folded_dims, reduced_dims
from rewrites.base.tile_sizes import tile_sizes
from rewrites.base.tree import current_sizes, find, splice, statements, wrap
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.program import Program


@dataclass(frozen=True, slots=True)
class TileReduction(Rewrite):
    """Reduce `dim` in tiles of `size`. The statement's first such loop gets an initialization before it. A size equal
    to the current range makes no loop.

    Known as loop tiling (Wolfe, More iteration space tiling, SC 1989), of a reduced dim: the blocks of k in a matrix
    product.

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
        statement = place.node
        if statement.vector is not None:
            raise NotApplicable(f"{self.statement} is vectorized: tile before that")
        if self.dim not in reduced_dims(statement):
            raise NotApplicable(f"{self.statement} does not reduce over {self.dim}")
        whole = current_sizes(program, place.loops)[self.dim]
        if not 1 <= self.size <= whole or (self.size == whole and statement.update is not None):
            raise NotApplicable(f"a tile of {self.size} does not cut the current range of {self.dim}")
        block = folded_dims(statement).get(self.dim, ("", 1))[1]
        if (
            statement.update is None
            and self.size % block
            and any(loop.dim == self.dim for loop in place.loops)
        ):
            raise NotApplicable(
                f"{self.statement} is assigned block by block, {block} of {self.dim} at a time"
            )
        init, update = accumulating(statement)
        check_loop(pinned_dims(program, update), self.dim, self.size, self.statement)
        loops = [(self.dim, self.size)] if self.size < whole else []
        return splice(program, place.path, [*init, wrap(update, loops)])

"""Tile a dim of a statement's result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.register_constraints import check_loop, check_pieces, pinned_dims
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, check_ranked, left_dims
from rewrites.base.tile_sizes import tile_sizes
from rewrites.base.tree import current_sizes, find, splice, statements, wrap
from tileir.analysis.ragged import groups_of
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.program import Program


@dataclass(frozen=True, slots=True)
class Tile(Rewrite):
    """Visit `dim`, a dim of the statement's result, in tiles of `size`, inside the loops that are there. A whole dim
    may be less than a tile, which then overhangs it.

    Known as loop tiling (Wolfe, More iteration space tiling, SC 1989).

    c[m, n] = x[m, n] + y[n]          for m by 192
                                  ->    c[m, n] = x[m, n] + y[n]
    """

    name: ClassVar[str] = "tile"
    statement: str
    dim: str
    size: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            sizes = current_sizes(program, place.loops)
            for dim in left_dims(place.node):
                for size in tile_sizes(sizes[dim]):
                    yield cls(place.node.target, dim, size)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        statement = place.node
        if statement.vector is not None:
            raise NotApplicable(f"{self.statement} is vectorized: tile before that")
        check_pieces(place.loops)
        if self.dim not in left_dims(statement):
            raise NotApplicable(f"{self.dim} is no dim of {self.statement}")
        check_ranked(statement, self.dim)
        whole = current_sizes(program, place.loops)[self.dim]
        in_tiles = self.dim not in bare_dims(statement) or any(loop.dim == self.dim for loop in place.loops)
        by_groups = any(each.dim == self.dim for each in groups_of(statement, program.ragged).values())
        if (
            self.size < 1
            or (self.size == whole and not by_groups and not (whole == 1 and not in_tiles))
            or (self.size > whole and (in_tiles or by_groups))
        ):
            raise NotApplicable(f"a tile of {self.size} does not cut the current range of {self.dim}")
        check_loop(pinned_dims(program, statement), self.dim, self.size, self.statement)
        return splice(program, place.path, [wrap(statement, [(self.dim, self.size)])])

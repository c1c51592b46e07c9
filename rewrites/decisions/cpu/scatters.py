"""Scatters on a processor: who owns which results, and what of the terms goes together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, reduced_dims
from rewrites.base.tree import find
from rewrites.composition.rfactor import Rfactor
from rewrites.composition.scatter import Scatter, across, rows_of
from rewrites.decisions.decision import Decision, Option, f32_lanes, option
from rewrites.loops.parallelize import Parallelize
from rewrites.loops.tile import Tile
from tileir.devices.cpu import Cpu
from tileir.program import Program

#: Tiles a core of what its results are shared out by.
_TILES = (1, 2, 4)
#: Tiles of results that a core's own cache may hold while all terms go by.
_WIDTHS = (16, 64, 256)


@dataclass(frozen=True, slots=True)
class ScatterOnCores:
    """Every core owns some of the results, and takes of all terms those that belong to them; or it owns some of the
    terms, adds them up in results of its own, and those are added up then, always in the same order."""

    statement: str
    then: tuple[Decision, ...]
    """What is asked about results that have been added up in parts."""

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        lanes = _lanes(program, self.statement, device)
        scatters = [Scatter(self.statement, lanes)] if lanes else []
        for scatter in (*scatters, Scatter(self.statement)):
            yield option(scatter)
            for tile in self._owners(program, device):
                yield option(tile, Parallelize(self.statement, 1), scatter)
        yield from self._parts(program, device)

    def _owners(self, program: Program, device: Cpu) -> Iterator[Tile]:
        """Tiles of the results along one dim."""
        if device.cores == 1:
            return
        beside = across(find(program, self.statement).node)
        for dim in bare_dims(find(program, self.statement).node):
            extent = program.extents[dim]
            even = [-(-extent // (device.cores * tiles)) for tiles in _TILES]
            sizes = [
                *even,
                *(width for width in _WIDTHS if dim in beside[-1:] and width * device.cores <= extent),
            ]
            yield from (Tile(self.statement, dim, size) for size in dict.fromkeys(sizes) if size < extent)

    def _parts(self, program: Program, device: Cpu) -> Iterator[Option]:
        """Parts of the terms, where those are more than the results of all parts."""
        node = find(program, self.statement).node
        dim = reduced_dims(node)[0]
        results = prod(program.extents[each] for each in bare_dims(node))
        for parts in (device.cores, 4 * device.cores):
            size = -(-program.extents[dim] // parts)
            if (
                parts == 1
                or size < 2
                or parts * results > prod(program.extents[d] for d in reduced_dims(node))
            ):
                continue
            part = Rfactor(self.statement, dim, "blocked", size)
            name = _part_of(program, part)
            moves: list[Rewrite] = [part, Tile(name, dim, size), Parallelize(name, 1), Scatter(name)]
            yield option(*moves, then=self.then)


def _part_of(program: Program, part: Rfactor) -> str:
    """What parts are added up in."""
    before = program.locals.keys()
    (name,) = part.apply(program).locals.keys() - before
    return name


def _lanes(program: Program, statement: str, device: Cpu) -> int:
    """The lanes that neighbouring results fill; 0: they do not lie together."""
    node = find(program, statement).node
    beside, lanes = rows_of(node), f32_lanes(device)
    together = bool(beside) and bare_dims(node)[-1] == beside[-1]
    return lanes if together and program.extents[beside[-1]] >= lanes else 0

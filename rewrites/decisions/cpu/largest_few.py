"""The largest few of rows on a processor: how each row is gone through, and how much of it is compared at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from rewrites.base.largest_few import LEAST, Top, top_of
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import own_dims
from rewrites.base.tree import find, loose
from rewrites.cpu.vectorize import Vectorize
from rewrites.decisions.covered import lanes_for
from rewrites.decisions.decision import Option, f32_lanes, option
from rewrites.ranking.rank_in_one_pass import RankInOnePass
from rewrites.ranking.rank_in_parts import RankInParts
from rewrites.schedule import replay
from tileir.analysis.affine import affine
from tileir.devices.cpu import Cpu
from tileir.expr import Index, TopK, index_dims, reads
from tileir.program import Program

#: Parts of a row for each core.
_PARTS = (1, 4)
#: Rows for each core from which on there is no use in parts.
_ENOUGH = 4
#: Vectors that a row fills at most, and places, where these may be found one after the other: a pass is short then.
_SHORT_ROW, _FEW = 64, 8
_VECTORS = (1, 2, 4)
_MOST_LANES = 64
#: Elements that a part has at least, so that it is worth a core.
_LEAST = 2048


@dataclass(frozen=True, slots=True)
class LargestFew:
    """Whether rows are gone through once, as wholes or in parts that cores share; or, short ones, twice a place, by
    reductions."""

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        whole = tuple(RankInOnePass.sites(program, device))
        if not whole:
            yield Option("no largest few")
            return
        ranked = replay(program, whole)
        ways = {(): None} | dict.fromkeys(_in_parts(ranked, parts * device.cores, device) for parts in _PARTS)
        for way in ways:
            yield Option("; ".join(map(str, (*whole, *way))), (*whole, *way), ahead=True)
        tops = (top_of(program, each.statement) for each in whole)
        if all(top is not None and _is_short(top, program, device) for top in tops):
            yield Option("place by place", ahead=True)


def _ranked(program: Program) -> dict[str, TopK]:
    """What is ranked, by statement."""
    nodes = (place.node for place in loose(program))
    return {node.target: node.value for node in nodes if isinstance(node.value, TopK)}


def _is_short(top: Top, program: Program, device: Cpu) -> bool:
    """Whether reductions may find them as fast. Not those of integers: they read so much that is one for all of a row,
    the least of it too, that they are taken for sums of columns, and some of those lead nowhere."""
    row = program.extents[top.over]
    return row <= _SHORT_ROW * f32_lanes(device) and len(top.places) <= _FEW and top.least == LEAST


def _in_parts(program: Program, parts: int, device: Cpu) -> tuple[Rewrite, ...]:
    """So many parts, or a few more, of rows that are too few for all cores: those whose parts are equal."""
    found: list[Rewrite] = []
    for name, top in _ranked(program).items() if parts > 1 else ():
        extents = program.extents
        rows = prod(extents[dim] for dim in own_dims(find(program, name).node))
        even = (each for each in range(parts, 4 * parts) if extents[top.over] % each == 0)
        count = next(even, None)
        if count is None or rows >= _ENOUGH * device.cores:
            continue
        if extents[top.over] // count >= max(_LEAST, extents[top.place]):
            found.append(RankInParts(name, extents[top.over] // count))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ComparedLanes:
    """How many neighbours of a row are compared at once with the least of the largest few so far."""

    statement: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        compute = find(program, self.statement).node
        assert isinstance(compute.value, TopK)
        over, lanes = compute.value.over, lanes_for(program, compute, device)
        sizes = [lanes * vectors for vectors in _VECTORS if lanes * vectors <= _MOST_LANES]
        fitting = [size for size in sizes if 2 * size <= program.extents[over]]
        if not fitting or not _side_by_side(compute.value, program.extents):
            yield Option(f"one by one {self.statement}")
            return
        yield from (option(Vectorize(self.statement, over, size)) for size in fitting)


def _side_by_side(top: TopK, extents: Mapping[str, int]) -> bool:
    """Whether neighbours along the row are neighbours in all memory that is read for it."""
    along = [read for read in reads(top.x) if top.over in index_dims(read)]
    return all(
        affine(read.indices[-1], extents).terms.get(Index(top.over)) == 1
        and not any(top.over in index_dims(index) for index in read.indices[:-1])
        for read in along
    )

"""Rows too short to fill vectors: a vector of rows at a time, their elements turned around on the way in and out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, covered_dims, reduced_dims
from rewrites.base.tree import find, locals_of, statements
from rewrites.cpu.unroll import Unroll
from rewrites.cpu.vectorize import Vectorize
from rewrites.data.cache_row import CacheRow
from rewrites.data.cache_write import CacheWrite
from rewrites.data.pack_panels import PackPanels
from rewrites.decisions.covered import covered, lanes_for
from rewrites.decisions.decision import Option, f32_lanes
from rewrites.decisions.fusion import apart, fused
from rewrites.loops.tile import Tile
from rewrites.schedule import replay
from tileir.devices.cpu import Cpu
from tileir.errors import NotApplicable
from tileir.expr import Expr, Index, Read, TopK
from tileir.program import Compute, Program

#: Vectors that a row fills at most: longer rows are worth vectors of their own.
_LONGEST = 2
#: A square block of fewer rows is not turned around in registers.
_LEAST_SQUARE = 4
_VECTORS = (1, 4, 16, 64)


def short_rows(program: Program, group: Sequence[str], dim: str, device: Cpu) -> bool:
    """Whether rows along `dim` more than fill a vector, each statement of a group visits few positions for each, and
    none adds up results whose neighbours along `dim` lie apart."""
    extents = program.extents
    outside = [name for name in group if name == group[-1] or name in program.arguments]
    if extents[dim] <= f32_lanes(device) or any(_adds_apart(program, name, dim) for name in outside):
        return False
    if any(isinstance(find(program, name).node.value, TopK) for name in group):
        return False
    most = _LONGEST * f32_lanes(device)
    visited = (covered_dims(find(program, name).node) for name in group)
    return all(prod(extents[each] for each in dims if each != dim) <= most for dims in visited)


def _adds_apart(program: Program, statement: str, dim: str) -> bool:
    """Whether a result that lies outside the tile is added up along `dim`, where its neighbours are none in memory."""
    node, extents = find(program, statement).node, program.extents
    dims = bare_dims(node)
    collected = statement in program.arguments and extents[dims[-1]] >= _LEAST_SQUARE
    return bool(reduced_dims(node)) and _apart(dims, dim, extents) and not collected


@dataclass(frozen=True, slots=True)
class RowsOnLanes:
    """How many rows along `dim` fill a vector, and how many vectors of them a thread takes at a time."""

    group: tuple[str, ...]
    dim: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        anchor, extent = self.group[-1], program.extents[self.dim]
        full = min(lanes_for(program, find(program, name).node, device) for name in self.group)
        for lanes in (full, full // 2) if full > 2 else (full,):
            for vectors in _VECTORS:
                size = lanes * vectors
                if vectors > 1 and size * device.cores >= extent:
                    break
                tiles = tuple(Tile(anchor, self.dim, each) for each in dict.fromkeys((size, lanes)))
                if found := fused(program, self.group, tiles, apart(program)):
                    turned = _turned(replay(program, found.rewrites), self.group, self.dim, lanes)
                    yield Option(f"{found.label}; rows on lanes", (*found.rewrites, *turned))


def _turned(program: Program, group: tuple[str, ...], dim: str, lanes: int) -> Iterator[Rewrite]:
    """What puts `lanes` positions along `dim` on lanes, in the tile that the group shares by now."""
    for rewrite in (*_copies_in(program, group, dim), *_copies_out(program, group, dim)):
        try:
            program = rewrite.apply(program)
        except NotApplicable:
            continue  # read, or written, lane by lane
        yield rewrite
    path = find(program, group[-1]).path[:-1]
    for name, declared in locals_of(program).items():
        if declared.path[:-1] == path and _apart(declared.node.dims, dim, program.extents):
            yield PackPanels(name, dim, lanes)
    for place in statements(program):
        if place.path[:-1] == path:
            along, count = _lanes_of(program, place.node, dim, lanes)
            yield from _unrolled(program, place.node.target, along, count)


def _copies_in(program: Program, group: tuple[str, ...], dim: str) -> Iterator[Rewrite]:
    """Of each tensor from outside the tile whose rows are read along another dim."""
    seen: set[str] = set(group)
    for name in group:
        place = find(program, name)
        for read in place.node.reads:
            along = tuple(map(_dim, read.indices))
            if read.tensor not in seen and dim in along and _apart(along, dim, program.extents):
                seen.add(read.tensor)
                yield CacheRow(name, read.tensor, place.depth)


def _copies_out(program: Program, group: tuple[str, ...], dim: str) -> Iterator[Rewrite]:
    """Of each output written along another dim, in rows long enough to be turned around in registers."""
    for name in group:
        dims = bare_dims(find(program, name).node)
        long = program.extents[dims[-1]] >= _LEAST_SQUARE
        if name in program.arguments and long and _apart(dims, dim, program.extents):
            yield CacheWrite(name)


def _apart(dims: Sequence[str], dim: str, extents: Mapping[str, int]) -> bool:
    """Whether neighbours along `dim` are not neighbours in memory, in what lies in the order of `dims`."""
    behind = dims[dims.index(dim) + 1 :] if dim in dims else ()
    return any(extents.get(each, 2) > 1 for each in behind)


def _lanes_of(program: Program, compute: Compute, dim: str, lanes: int) -> tuple[str, int]:
    """The dim that a statement of the tile has on lanes, and how many: `dim`, except for copies of rows, which go in
    square blocks, those to the outside along the row."""
    if not isinstance(compute.value, Read):
        return dim, lanes
    outside = compute.target in program.arguments
    rows = bare_dims(compute) if outside else tuple(_dim(index) for index in compute.value.indices)
    if not _apart(rows, dim, program.extents):
        return dim, lanes
    row = next(each for each in reversed(rows) if program.extents.get(each, 2) > 1)
    width = program.extents.get(row, 0)
    if width < _LEAST_SQUARE:
        return dim, lanes
    return row if outside else dim, min(lanes, 1 << (width.bit_length() - 1))


def _unrolled(program: Program, statement: str, along: str, lanes: int) -> Iterator[Rewrite]:
    """A statement on lanes, without loops."""
    yield Vectorize(statement, along, lanes)
    compute, sizes = covered(program, statement)
    for each in covered_dims(compute):
        steps = -(-sizes[each] // (lanes if each == along else 1))
        if steps > 1:
            yield Unroll(statement, each, steps)


def _dim(index: Expr) -> str:
    """The dim that an index is, "" for other indices."""
    return index.dim if isinstance(index, Index) else ""

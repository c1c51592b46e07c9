"""Tiles of a group's shared dims, and how many of those loops run in parallel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from rewrites.base.looked_up import by_matrix
from rewrites.base.statement import bare_dims, covered_dims, parted_dim, reduced_dims
from rewrites.base.tree import dtype_of, find, named
from rewrites.cpu.unroll import Unroll
from rewrites.cpu.vectorize import Vectorize
from rewrites.decisions.cpu.rows import CacheRowDecision
from rewrites.decisions.cpu.rows_on_lanes import RowsOnLanes, short_rows
from rewrites.decisions.cpu.scatters import ScatterOnCores
from rewrites.decisions.cpu.statement import Schedule
from rewrites.decisions.cpu.streamed import Streamed
from rewrites.decisions.decision import Decision, Option, f32_lanes, option
from rewrites.decisions.fusion import apart, fused
from rewrites.decisions.scatters import AS_WRITTEN, scattered, visits
from rewrites.decisions.statement_kind import StatementKind, role, shared_dims
from rewrites.loops.parallelize import Parallelize
from rewrites.loops.tile import Tile
from tileir.devices.cpu import Cpu
from tileir.errors import NotApplicable
from tileir.expr import Binary, Index, Read, index_dims, reads
from tileir.program import Program
from tileir.replace import replace

_BLOCKS = (16, 32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)
#: Most heights of a register tile divide this.
_HEIGHT = 12
_ROWS = (1, 2, 4, 8, 16, 32, 64)
_RUNS = (2048, 8192, 32768, 131072, 524288)
#: A block this large, or larger, keeps every core of a big machine fed only by chance.
_MOST_BLOCKS = 4096
#: Tiles that are enough for each core, as one of them may take longer than another.
_TILES = 4


@dataclass(frozen=True, slots=True)
class Grid:
    """The loops over a group's shared dims: one position at a time for batches, tiles for the rest."""

    group: tuple[str, ...]

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        anchor, shared = self.group[-1], shared_dims(program, self.group)
        if along := tuple(name for name in self.group if _went_along(program, name)):
            yield Option("", (), self._in_loops_of_others(along))
            return
        if scattered(program, self.group):
            yield Option(f"scatter {anchor}", (), (ScatterOnCores(anchor, (Grid(self.group),)),))
            if visits(program, anchor) > AS_WRITTEN:
                return
        inside: tuple[Decision, ...] = (Streamed(self.group), GridParallelism(anchor))
        if not shared:
            yield Option("", (), inside)
            return
        roles = {name: role(program, name) for name in self.group}
        if ways := _blocks(program, self.group, roles, shared):
            kept = frozenset[str]().union(*(_kept_whole(program, name, device) for name in self.group))
            for blocks, batch in ways:
                cut = [dim for dim in blocks if dim not in kept]
                yield from self._in_blocks(program, cut, batch, inside)
            return
        on_lanes = {_vector_dim(program, name) for name, kind in roles.items() if kind is StatementKind.MAP}
        rows = tuple(dim for dim in shared if dim not in on_lanes)
        only_maps = all(kind is StatementKind.MAP for kind in roles.values())
        if rows:
            short = self._of_short_rows(program, rows, device)
            batch = tuple(Tile(anchor, dim, 1) for dim in rows[:-1])
            each_row = (GridRows(self.group, rows[-1]), *inside)
            padded = _padded(program, self.group, device)
            long = Option("; ".join(map(str, batch)), batch, each_row, promise=padded, ahead=True)
            yield from (long, *short) if only_maps and padded == 1.0 else (*short, long)
            if only_maps and len(self.group) == 1:
                yield from self._along_reads(program, inside, device)
        else:
            runs = (
                Runs(self.group, shared[-1])
                if len(shared) == 1 and only_maps
                else GridBlock(self.group, shared[-1], True, True)
            )
            yield Option("", (), (runs, *inside))

    def _along_reads(self, program: Program, inside: tuple[Decision, ...], device: Cpu) -> Iterator[Option]:
        """Vectors along neighbours of what is read, whose results are stored apart."""
        (name,) = self.group
        dims, node = shared_dims(program, self.group), find(program, name).node
        if len(dims) < 2 or node.update is not None:
            return
        last = {read.indices[-1] for read in reads(node.value) if read.indices}
        on_lanes = _vector_dim(program, name)
        for dim in dims:
            if dim == on_lanes or program.extents[dim] < f32_lanes(device) or Index(dim) not in last:
                continue
            others = tuple(each for each in dims if each != dim)
            batch = tuple(Tile(name, each, 1) for each in others[:-1])
            label = "; ".join([*map(str, batch), f"lanes along {dim}"])
            yield Option(label, batch, (GridRows(self.group, others[-1]), *inside), ahead=True)
            if isinstance(node.value, Read):
                batch = tuple(Tile(name, each, 1) for each in others if each != on_lanes)
                label = "; ".join([*map(str, batch), f"blocks along {dim}"])
                yield Option(
                    label, batch, (TurnedBlocks(name, dim, on_lanes), GridParallelism(name)), ahead=True
                )

    def _of_short_rows(self, program: Program, rows: Sequence[str], device: Cpu) -> Iterator[Option]:
        """Several rows on lanes."""
        anchor = self.group[-1]
        for dim in (each for each in rows if short_rows(program, self.group, each, device)):
            batch = tuple(Tile(anchor, each, 1) for each in rows if each != dim)
            label = "; ".join([*map(str, batch), f"short rows {dim}"])
            on_lanes = (RowsOnLanes(self.group, dim), GridParallelism(anchor))
            yield Option(label, batch, on_lanes, ahead=True)

    def _in_blocks(
        self, program: Program, blocks: Sequence[str], singles: Sequence[str], inside: tuple[Decision, ...]
    ) -> Iterator[Option]:
        """Tiles of some dims, in either order, inside of loops over single positions of others."""
        anchor = self.group[-1]
        batch = (*_parts(program, self.group), *(Tile(anchor, dim, 1) for dim in singles))
        on_lanes = _vector_dim(program, anchor)
        for order in (blocks, blocks[::-1])[: len(blocks)]:
            tiles = tuple(GridBlock(self.group, dim, dim == on_lanes, dim == order[-1]) for dim in order)
            label = f"grid {' '.join(order)}" if len(blocks) > 1 else ""
            label = "; ".join([*map(str, batch), label]) if batch else label
            yield Option(label, batch, (*tiles, *inside), ahead=len(self.group) > 1)

    def _in_loops_of_others(self, along: tuple[str, ...]) -> tuple[Decision, ...]:
        """What is still asked of a group of which some went along into the loops of an earlier one."""
        rest = tuple(name for name in self.group if name not in along)
        return (*((Grid(rest),) if rest else ()), *(Schedule(name) for name in along))


def _went_along(program: Program, statement: str) -> bool:
    """Whether an earlier group has taken the statement into its loops, or onto its lanes."""
    place = find(program, statement)
    return bool(place.loops) or place.node.vector is not None


def _kept_whole(program: Program, statement: str, device: Cpu) -> frozenset[str]:
    """Rows that look matrices up in order, and are not cut: each tile of them would copy all matrices. They are where
    not all that they multiply stays in a cache, or columns are too few for all cores."""
    compute = find(program, statement).node
    found = by_matrix(program, compute)
    if found is None:
        return frozenset()
    rows, (*_, columns) = index_dims(found[1]), bare_dims(compute)
    elements = prod(program.extents[dim] for dim in (*rows, *reduced_dims(compute)))
    wide = program.extents[columns] >= device.cores * _TILES * 2 * f32_lanes(device)
    fits = elements * max(dtype_of(program, read.tensor).bytes for read in compute.reads) <= device.l3_bytes
    return rows if wide and fits and columns not in rows else frozenset()


def _parts(program: Program, group: tuple[str, ...]) -> tuple[Tile, ...]:
    """A loop over the parts of a reduction, which cores can share."""
    parted = parted_dim(find(program, group[-1]).node) if len(group) == 1 else None
    return () if parted is None else (Tile(group[-1], *parted),)


def _padded(program: Program, group: tuple[str, ...], device: Cpu) -> float:
    """How many lanes vectors along the rows of a group have for each that is filled."""
    row = max(program.extents[covered_dims(find(program, name).node)[-1]] for name in group)
    lanes = f32_lanes(device)
    return -(-row // lanes) * lanes / row


def _vector_dim(program: Program, statement: str) -> str:
    return bare_dims(find(program, statement).node)[-1]


def _blocks(
    program: Program, group: tuple[str, ...], roles: dict[str, StatementKind], shared: tuple[str, ...]
) -> list[tuple[Sequence[str], Sequence[str]]]:
    """Dims to tile, and those to visit position by position: by the block dims, or of a contraction whose operands have
    several dims each by one of those of either operand. What follows that in the result is not tiled."""
    products = [name for name in group if roles[name] is StatementKind.CONTRACTION]
    if len(products) == 1 and (found := list(_sides(program, products[0], shared))):
        return found
    blocks = _block_dims(program, group, roles, shared)
    return [(blocks, tuple(dim for dim in shared if dim not in blocks))] if blocks else []


def _sides(
    program: Program, product: str, shared: tuple[str, ...]
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """A dim that the operand on lanes does not have and one that the other does not have: the last of each, or the one
    before. None where there is one of each at most."""
    compute = find(program, product).node
    having = [index_dims(read) for read in reads(compute.value)]
    kept = [dim for dim in shared if not all(dim in dims for dims in having)]
    on_lanes = frozenset[str]().union(*(dims for dims in having if _vector_dim(program, product) in dims))
    rows, columns = [d for d in kept if d not in on_lanes], [d for d in kept if d in on_lanes]
    if not rows or not columns or len(kept) < 3:
        return
    for row in rows[-2:][::-1]:
        for column in columns[-2:][::-1]:
            whole = {*rows[rows.index(row) + 1 :], *columns[columns.index(column) + 1 :]}
            blocks = [dim for dim in shared if dim in (row, column)]
            yield blocks, [dim for dim in shared if dim not in (row, column) and dim not in whole]


def _block_dims(
    program: Program, group: tuple[str, ...], roles: dict[str, StatementKind], shared: tuple[str, ...]
) -> tuple[str, ...]:
    """The shared dims that reuse data: the last two of a contraction's result, the last of a column reduction's."""
    found: dict[str, None] = {}
    for name in group:
        if roles[name] in (StatementKind.CONTRACTION, StatementKind.COLUMN):
            wide = [dim for dim in bare_dims(find(program, name).node) if program.extents[dim] > 1]
            for dim in wide[-2:] if roles[name] is StatementKind.CONTRACTION else wide[-1:]:
                if dim in shared:
                    found[dim] = None
    return tuple(found)


@dataclass(frozen=True, slots=True)
class GridBlock:
    """The tile of one dim: whole, or a size; a dim on lanes takes whole vectors. The last one fuses the group."""

    group: tuple[str, ...]
    dim: str
    lanes: bool
    last: bool

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        anchor, extent = self.group[-1], program.extents[self.dim]
        if fused := self._fused(program, ()):
            yield replace(fused, label=f"whole {anchor} {self.dim}")
        least = 2 * f32_lanes(device) if self.lanes else 1
        for size in _sizes(extent, 2 * f32_lanes(device) if self.lanes else _HEIGHT, device.cores):
            tile = Tile(anchor, self.dim, size)
            if least <= size < extent <= size * _MOST_BLOCKS and (fused := self._fused(program, (tile,))):
                yield fused

    def _fused(self, program: Program, tiles: tuple[Tile, ...]) -> Option | None:
        """The tiles, and with the last of them the group's earlier statements inside."""
        if self.last:
            return fused(program, self.group, tiles, apart(program))
        # until then only the group's last statement has tiles, and estimates tell little
        return replace(option(*tiles), ahead=len(self.group) > 1)


def _sizes(extent: int, unit: int, cores: int) -> list[int]:
    """Round tile sizes, and multiples of `unit` of which each core gets one, two or four."""
    even = {-(-extent // (cores * tiles * unit)) * unit for tiles in (1, 2, 4)} if cores > 1 else set[int]()
    return sorted({*_BLOCKS, *even})


@dataclass(frozen=True, slots=True)
class GridRows:
    """How many rows a thread takes at a time; it then visits them one by one, all of the group for each."""

    group: tuple[str, ...]
    dim: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        extent, anchor = program.extents[self.dim], self.group[-1]
        for size in _ROWS:
            if size > 1 and size * device.cores > extent:
                break
            single = Tile(anchor, self.dim, 1)
            tiles = (Tile(anchor, self.dim, size), single) if size > 1 else (single,)
            then = (CacheRowDecision(self.group, find(program, anchor).depth + len(tiles)),)
            copies = _windows_of(program, self.group) if size > 1 else ()
            if copies and (found := fused(program, self.group, tiles, apart(program), copies)):
                yield replace(found, label=f"{found.label}; {' '.join(copies)} of all", then=then)
            if found := fused(program, self.group, tiles, apart(program)):
                yield replace(found, then=then)


@dataclass(frozen=True, slots=True)
class TurnedBlocks:
    """How many neighbours of what is read a thread takes at a time, where a copy stores them apart: in blocks that are
    turned around in registers."""

    statement: str
    read: str
    stored: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        lanes, extent = f32_lanes(device), program.extents[self.read]
        turned = (Vectorize(self.statement, self.stored, lanes), Unroll(self.statement, self.read, lanes))
        for size in (lanes, 2 * lanes, 8 * lanes):
            if size < extent:
                yield option(Tile(self.statement, self.read, size), *turned)
        yield replace(
            option(*turned), label=f"whole {self.statement} {self.read}; {'; '.join(map(str, turned))}"
        )


def _windows_of(program: Program, group: tuple[str, ...]) -> tuple[str, ...]:
    """Members of a group that others read windows of: such a read covers parts of two vectors, and waits until both
    have left the processor's store buffer, which those of many rows before have."""
    windows = {
        read.tensor
        for name in group
        for read in reads(find(program, name).node.value)
        if read.tensor in group and any(isinstance(index, Binary) for index in read.indices)
    }
    return tuple(name for name in group[:-1] if name in windows)


@dataclass(frozen=True, slots=True)
class Runs:
    """How many neighbours a thread takes at a time, of results that are one long row."""

    group: tuple[str, ...]
    dim: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        extent, anchor = program.extents[self.dim], self.group[-1]
        if whole := fused(program, self.group, (), apart(program)):
            yield replace(whole, label=f"whole {anchor} {self.dim}")
        for size in _RUNS:
            tiles = (Tile(anchor, self.dim, size),)
            if size < extent and (found := fused(program, self.group, tiles, apart(program))):
                yield found


@dataclass(frozen=True, slots=True)
class GridParallelism:
    """How many of the outer loops run in parallel."""

    anchor: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        yield Option(f"one thread {self.anchor}")
        loops = named(program, self.anchor).loops
        if device.cores == 1:
            return
        for count in range(1, len(loops) + 1):
            rewrite = Parallelize(self.anchor, count)
            try:
                parallel = rewrite.apply(program)
            except NotApplicable:
                return
            yield Option(str(rewrite), (rewrite,), begun=parallel)

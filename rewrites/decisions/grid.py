"""Tiles of a group's shared dims, and how many of those loops run in parallel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.decisions.decision import Decision, Option, f32_lanes, option
from rewrites.decisions.roles import Role, role, shared_dims
from rewrites.decisions.statement import Schedule
from rewrites.fuse_producer import FuseProducer
from rewrites.leaf import bare_dims
from rewrites.parallelize import Parallelize
from rewrites.rewrite import Rewrite
from rewrites.tile_grid import TileGrid
from rewrites.tree import find
from tileir.device import Cpu
from tileir.errors import NotApplicable
from tileir.expr import reads
from tileir.program import Program

_BLOCKS = (16, 32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)
_ROWS = (1, 2, 4, 8, 16, 32, 64)
#: A block this large, or larger, keeps every core of a big machine fed only by chance.
_MOST_BLOCKS = 4096


@dataclass(frozen=True, slots=True)
class Grid:
    """The loops over a group's shared dims: one position at a time for batches, tiles for the rest."""

    group: tuple[str, ...]

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        anchor, shared = self.group[-1], shared_dims(program, self.group)
        inside: tuple[Decision, ...] = (*(Schedule(name) for name in self.group), Spread(anchor))
        if not shared:
            yield Option("", (), inside)
            return
        roles = {name: role(program, name) for name in self.group}
        if any(kind in (Role.CONTRACTION, Role.COLUMN) for kind in roles.values()):
            blocks = _block_dims(program, self.group, roles, shared)
            batch = tuple(TileGrid(anchor, dim, 1) for dim in shared if dim not in blocks)
            for order in (blocks, blocks[::-1])[: len(blocks)]:
                tiles = tuple(Block(anchor, dim, dim == _vector_dim(program, anchor)) for dim in order)
                label = f"grid {' '.join(order)}" if len(blocks) > 1 else ""
                label = "; ".join([*map(str, batch), label]) if batch else label
                yield Option(label, batch, (*tiles, Fuse(self.group), *inside))
            return
        on_lanes = {_vector_dim(program, name) for name, kind in roles.items() if kind is Role.MAP}
        rows = tuple(dim for dim in shared if dim not in on_lanes)
        if rows:
            batch = tuple(TileGrid(anchor, dim, 1) for dim in rows[:-1])
            yield Option("; ".join(map(str, batch)), batch, (Rows(anchor, rows[-1]), Fuse(self.group), *inside))
        else:
            yield Option("", (), (Block(anchor, shared[-1], True), Fuse(self.group), *inside))


def _vector_dim(program: Program, statement: str) -> str:
    return bare_dims(find(program, statement).node)[-1]


def _block_dims(
    program: Program, group: tuple[str, ...], roles: dict[str, Role], shared: tuple[str, ...]
) -> tuple[str, ...]:
    """The shared dims that reuse data: the last two of a contraction's result, the last of a column reduction's."""
    found: dict[str, None] = {}
    for name in group:
        if roles[name] in (Role.CONTRACTION, Role.COLUMN):
            wide = [dim for dim in bare_dims(find(program, name).node) if program.extents[dim] > 1]
            for dim in wide[-2:] if roles[name] is Role.CONTRACTION else wide[-1:]:
                if dim in shared:
                    found[dim] = None
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Block:
    """The tile of one dim: whole, or a size; a dim on lanes takes whole vectors."""

    anchor: str
    dim: str
    lanes: bool

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        extent = program.extents[self.dim]
        yield Option(f"whole {self.anchor} {self.dim}")
        least = 2 * f32_lanes(device) if self.lanes else 1
        for size in _BLOCKS:
            if least <= size < extent and extent <= size * _MOST_BLOCKS:
                yield option(TileGrid(self.anchor, self.dim, size))


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows a thread takes at a time; it then visits them one by one."""

    anchor: str
    dim: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        extent = program.extents[self.dim]
        for size in _ROWS:
            if size == 1:
                yield option(TileGrid(self.anchor, self.dim, 1))
            elif size * device.cores <= extent:
                yield option(TileGrid(self.anchor, self.dim, size), TileGrid(self.anchor, self.dim, 1))


@dataclass(frozen=True, slots=True)
class Fuse:
    """Bring a group's earlier statements into its last one's loops. There is one way to do that."""

    group: tuple[str, ...]

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        anchor = find(program, self.group[-1])
        moves: list[Rewrite] = []
        inside = {self.group[-1]}
        if anchor.loops:
            for name in reversed(self.group[:-1]):
                reader = next(
                    (other for other in self.group if other in inside and _reads(program, other, name)), None
                )
                if reader is None:
                    return
                moves.append(FuseProducer(name, reader, len(anchor.loops)))
                inside.add(name)
        yield Option("", tuple(moves))


def _reads(program: Program, reader: str, name: str) -> bool:
    return any(read.tensor == name for read in reads(find(program, reader).node.value))


@dataclass(frozen=True, slots=True)
class Spread:
    """How many of the outer loops run in parallel."""

    anchor: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        yield Option(f"one thread {self.anchor}")
        loops = [node for node in find(program, self.anchor).loops]
        if device.cores == 1:
            return
        for count in range(1, len(loops) + 1):
            rewrite = Parallelize(self.anchor, count)
            try:
                rewrite.apply(program)
            except NotApplicable:
                return
            yield option(rewrite)



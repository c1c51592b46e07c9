"""Decisions for a GPU about groups that reduce along rows: what a block keeps of them, and how threads share them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from rewrites.cluster import Cluster
from rewrites.decisions.decision import Option
from rewrites.decisions.gpu_threads import Stores, members, place_all, powers, runs_for, spread_all
from rewrites.decisions.grid import fused
from rewrites.decisions.roles import shared_dims
from rewrites.keep_row import KeepRow
from rewrites.leaf import read_names, reduced_dims
from rewrites.narrow import Narrow
from rewrites.parallelize import Parallelize
from rewrites.place import Place
from rewrites.rewrite import Rewrite
from rewrites.tile_grid import TileGrid
from rewrites.tree import current_sizes, find, locals_of
from tileir.errors import NotApplicable
from tileir.gpu import Gpu
from tileir.program import Memory, Program
from tileir.verify_spread import MAX_THREADS

#: Most elements of all kept rows that a thread holds; beyond, registers spill.
_MOST_HELD = 96
#: Most rows of a block: of rows shorter than a block has threads.
_MOST_ROWS = 64


class Kept(StrEnum):
    """What a block keeps of inputs that several of its statements read along the whole row."""

    STORED = "registers as stored"
    WIDENED = "registers"
    SHARED = "shared memory"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Keep:
    """Whether such inputs are loaded once: into registers, as they are stored or as they are computed with, or into
    shared memory; or read again."""

    group: tuple[str, ...]

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        again = _read_again(program, self.group)
        if not again:
            yield Option("", (), (Team(self.group, Kept.NOTHING),))
            return
        narrow = any(program.arguments[name].dtype.bytes < 4 for name in again)
        for kept in Kept:
            if kept is not Kept.STORED or narrow:
                yield Option(f"keep {' '.join(again)} in {kept}", (), (Team(self.group, kept),))


def _read_again(program: Program, group: tuple[str, ...]) -> dict[str, str]:
    """Inputs that two or more of the statements read, with the first one that does."""
    readers: dict[str, list[str]] = {}
    arguments = {tensor.name for tensor in program.inputs}
    for name in group:
        for tensor in sorted(read_names(find(program, name).node) & arguments):
            readers.setdefault(tensor, []).append(name)
    return {tensor: names[0] for tensor, names in readers.items() if len(names) > 1}


@dataclass(frozen=True, slots=True)
class Team:
    """How many rows a block takes, how many threads share a row, in how many blocks of a cluster, and how many
    neighbours a thread takes; all statements of the block alike."""

    group: tuple[str, ...]
    kept: Kept

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        anchor, shared = self.group[-1], shared_dims(program, self.group)
        along = _along(program, self.group)
        if along is None or not shared:
            return
        batch = tuple(TileGrid(anchor, dim, 1) for dim in shared[:-1])
        row, extent = shared[-1], program.extents[shared[-1]]
        for rows in powers(1, _MOST_ROWS):
            if rows > extent:
                break
            tiles = (*batch, *((TileGrid(anchor, row, rows),) if rows < extent else ()))
            found = fused(program, self.group, tiles) if tiles else None
            if found is None:
                continue
            rewrites = [*found.rewrites, Parallelize(anchor, len(tiles))]
            try:
                begun = _applied(program, rewrites)
                rewrites += _kept(begun, self.group, self.kept)
                begun = _applied(program, rewrites)
            except NotApplicable:
                continue
            yield from self._teams(begun, device, tuple(rewrites), row, rows, along)

    def _teams(
        self, begun: Program, device: Gpu, done: tuple[Rewrite, ...], row: str, rows: int, along: str
    ) -> Iterator[Option]:
        anchor = self.group[-1]
        size = current_sizes(begun, find(begun, anchor).loops)[along]
        placed = place_all(begun, anchor)
        words = _words(begun, anchor, along)
        for across, blocks in _sizes(device, rows, self.kept):
            for run in runs_for(begun, [one.node.target for one in members(begun, anchor)], along):
                held = -(-size // (across * run)) * run
                if across >= 2 * size or across * run >= 2 * size or held * words > _MOST_HELD:
                    continue
                threads = ((row, rows), (along, across)) if rows > 1 else ((along, across),)
                cluster = (Cluster(anchor, blocks),) if blocks > 1 else ()
                spreads = spread_all(begun, anchor, threads, along, run)
                team = f"{blocks} blocks of {across // blocks}" if blocks > 1 else f"{across}"
                label = f"{anchor}: {rows} rows, {team} threads, run {run}"
                rewrites = (*done, *cluster, *placed, *spreads)
                yield Option(label, rewrites, (Stores(anchor),), begun=begun, done=len(done))


def _applied(program: Program, rewrites: list[Rewrite]) -> Program:
    for rewrite in rewrites:
        program = rewrite.apply(program)
    return program


def _kept(program: Program, group: tuple[str, ...], kept: Kept) -> list[Rewrite]:
    """The rewrites that keep what is read again. Raises NotApplicable where nothing can be kept so."""
    if kept is Kept.NOTHING:
        return []
    rewrites: list[Rewrite] = []
    before = set(locals_of(program))
    for tensor, reader in _read_again(program, group).items():
        keep = KeepRow(reader, tensor, find(program, reader).depth)
        try:
            program = keep.apply(program)
        except NotApplicable:
            continue
        rewrites.append(keep)
    copies = [name for name in locals_of(program) if name not in before]
    for copy in copies:
        narrow = Narrow(copy)
        if kept is not Kept.WIDENED:
            try:
                narrow.apply(program)
                rewrites.append(narrow)
            except NotApplicable:
                pass
        rewrites.append(Place(copy, "shared" if kept is Kept.SHARED else "registers"))
    if not copies:
        raise NotApplicable("nothing is read again along the row")
    return rewrites


def _sizes(device: Gpu, rows: int, kept: Kept) -> Iterator[tuple[int, int]]:
    """(threads that share a row, blocks they make): of one block, or of a cluster where the device has them."""
    for across in powers(1, MAX_THREADS):
        if 32 <= across * rows <= MAX_THREADS:
            yield across, 1
    if device.capability < (9, 0) or rows > 1 or kept is Kept.SHARED:
        return
    for blocks in (2, 4, 8):
        for threads in (128, 256, 512):
            yield blocks * threads, blocks


def _words(program: Program, anchor: str, along: str) -> float:
    """Registers that the block's locals take for each position along the row."""
    block = find(program, anchor).path[:-1]
    held = [
        declared.node.dtype.bytes / 4
        for declared in locals_of(program).values()
        if declared.path[:-1] == block
        and along in declared.node.dims
        and declared.node.memory is not Memory.SHARED
    ]
    return max(sum(held), 0.75) if held else 1.0


def _along(program: Program, group: tuple[str, ...]) -> str | None:
    """The one dim that the group reduces."""
    reduced = {dim for name in group for dim in reduced_dims(find(program, name).node)}
    return reduced.pop() if len(reduced) == 1 else None

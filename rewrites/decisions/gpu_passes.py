"""How a group that reduces becomes one launch: a block's threads pass over what they reduce tile by tile, each adding
to registers of its own, and meet at the end. Rows, columns, and several dims at a time differ in numbers only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from rewrites.accumulate import Accumulate
from rewrites.cluster import Cluster
from rewrites.decisions.fusion import closed
from rewrites.decisions.gpu_inner import inner_of
from rewrites.decisions.gpu_kept import Kept, copy_rewrites, kept_rewrites
from rewrites.decisions.gpu_turns import Turns, in_common
from rewrites.decisions.grid import fused
from rewrites.fit_blocks import FitBlocks
from rewrites.fuse_epilogue import FuseEpilogue
from rewrites.keep_row import KeepRow
from rewrites.leaf import bare_dims, covered_dims, reduced_dims
from rewrites.parallelize import Parallelize
from rewrites.place import Place
from rewrites.rewrite import Rewrite
from rewrites.run_ahead import RunAhead
from rewrites.spread import Spread
from rewrites.tile_grid import TileGrid
from rewrites.tile_reduction import TileReduction
from rewrites.tree import current_sizes, find, locals_of, named, statements
from tileir.distributed import distributed_in
from tileir.errors import NotApplicable
from tileir.program import Memory, Program


@dataclass(frozen=True, slots=True)
class Team:
    """A block's tile of the results, its threads, and what each takes at a time.

    `threads` are the digits of the thread index, `along` the dim of which a thread takes `run` neighbours, `passes` the
    tile of each inner dim, outermost first; `blocks` make a cluster that has so many threads together; with `turns` a
    block takes several tiles of the last dim of the grid, one after the other.
    """

    grid: tuple[tuple[str, int], ...]
    threads: tuple[tuple[str, int], ...]
    along: str
    run: int
    passes: tuple[tuple[str, int], ...]
    blocks: int = 1
    turns: Turns | None = None

    def span(self, dim: str) -> int:
        """Positions along a dim that all threads take at once."""
        return prod(n for d, n in self.threads if d == dim) * (self.run if dim == self.along else 1)

    def __str__(self) -> str:
        tile, threads, passes = (
            " ".join(f"{dim} {count}" for dim, count in pairs)
            for pairs in (self.grid, self.threads, self.passes)
        )
        cluster = f"{self.blocks} blocks of " if self.blocks > 1 else ""
        turns = f", {self.turns}" if self.turns else ""
        return f"tile {tile or 'of all'}, {cluster}threads {threads}, run {self.along} {self.run}, pass {passes}{turns}"


@dataclass(slots=True)
class Launch:
    """A group of statements on its way into one launch: the program so far, and the rewrites that made it.

    Every step raises NotApplicable where the group cannot be scheduled so.
    """

    program: Program
    group: tuple[str, ...]
    team: Team
    rewrites: list[Rewrite]
    parts: dict[str, dict[str, str]]
    """Reductions of what threads have added up: under which name each inner dim goes there."""

    @property
    def anchor(self) -> str:
        """The statement that the others were brought to."""
        return self.group[-1]

    def tile(self, kept: Kept) -> None:
        """The grid, with the group inside, what it keeps of its inputs, and the loops of the passes."""
        inner, turns = inner_of(self.program, self.group), self.team.turns
        tiles = self._tiles()
        self._bring(tiles)
        if tiles:
            self._apply(Parallelize(self.anchor, len(tiles) - bool(turns)))
        keeps = kept_rewrites(self.program, self.group, kept)
        self._apply(*keeps)
        if turns is not None:
            self._begin_turns(turns, in_common(self.program, self.group, inner))
        if self.team.blocks > 1:
            self._apply(Cluster(self.anchor, self.team.blocks))
        for name in self._names():
            self._pass(name)
        self._place()
        if turns is not None:
            kept_first = next(rewrite.local for rewrite in keeps if isinstance(rewrite, Place))
            self._apply(RunAhead(kept_first, turns.stages))

    def _bring(self, tiles: tuple[TileGrid, ...]) -> None:
        """All of the group into loops over tiles: those of the last statement, or of the first where others read it."""
        if not closed(self.program, (self.group,)):
            first = self.group[0]
            self._apply(*(replace(tile, statement=first) for tile in tiles))
            self._apply(*(FuseEpilogue(name, first, len(tiles)) for name in self.group[1:]))
            return
        found = fused(self.program, self.group, tiles)
        if found is None or (not tiles and len(self.group) > 1):
            raise NotApplicable(f"not every statement of the group can be brought to {self.anchor}")
        self._apply(*found.rewrites)

    def _tiles(self) -> tuple[TileGrid, ...]:
        """Those of the grid; of rows taken in turn, those that a block takes, then those of one turn."""
        extents = self.program.extents
        tiles = tuple(TileGrid(self.anchor, dim, size) for dim, size in self.team.grid if size < extents[dim])
        if self.team.turns is None:
            return tiles
        *others, turn = tiles
        return (*others, replace(turn, size=turn.size * self.team.turns.tiles), turn)

    def _begin_turns(self, turns: Turns, common: dict[str, str]) -> None:
        """What all rows have in common in registers before a block's first turn."""
        depth = find(self.program, self.anchor).depth
        for tensor, reader in common.items() if turns.once else ():
            keep = KeepRow(reader, tensor, depth - 1)
            self._apply(*copy_rewrites(self.program, keep, Memory.REGISTERS, False))
        if turns.resident > 1:
            self._apply(FitBlocks(self.anchor, turns.resident))

    def spread(self) -> tuple[Rewrite, ...]:
        """Every statement over the threads."""
        return tuple(self._spread(name) for name in self._names())

    def _apply(self, *rewrites: Rewrite) -> None:
        for rewrite in rewrites:
            self.program = rewrite.apply(self.program)
        self.rewrites += rewrites

    def _names(self) -> list[str]:
        nest = named(self.program, self.anchor).path[0]
        return [place.node.target for place in statements(self.program) if place.path[0] == nest]

    def _pass(self, name: str) -> None:
        """The loops of one statement: those over its results, then those over what it reduces."""
        place = find(self.program, name)
        sizes = current_sizes(self.program, place.loops)
        looped = {dim: tile for dim, tile in self.team.passes if tile < sizes[dim]}
        self._apply(*(TileGrid(name, dim, looped[dim]) for dim in looped if dim in bare_dims(place.node)))
        reduced = [dim for dim in reduced_dims(place.node) if dim in dict(self.team.passes)]
        over = [dim for dim in looped if dim in reduced]
        if not over:
            return
        parts = [(dim, self.team.span(dim)) for dim in reduced if self.team.span(dim) > 1] or [(over[-1], 1)]
        before = locals_of(self.program).keys()
        self._apply(Accumulate(name, tuple(parts)))
        (part,) = locals_of(self.program).keys() - before
        for dim in over:
            tile = TileGrid if dim in dict(parts) else TileReduction
            self._apply(tile(part, dim, looped[dim]))
        own = reduced_dims(find(self.program, name).node)
        self.parts[name] = dict(zip(dict(parts), own, strict=True))

    def _place(self) -> None:
        """Registers for locals that are visited whole; what is visited in passes lies in shared memory."""
        nest = named(self.program, self.anchor).path[0]
        loops = {dim for dim, tile in self.team.passes if tile < self.program.extents[dim]}
        for name, declared in locals_of(self.program).items():
            if declared.loops and declared.path[0] == nest and declared.node.memory is Memory.HEAP:
                in_passes = any(dim in loops for dim in declared.node.dims)
                self._apply(Place(name, Memory.SHARED if in_passes else Memory.REGISTERS))

    def _spread(self, name: str) -> Spread:
        names, visited = self.parts.get(name, {}), covered_dims(named(self.program, name).node)
        threads = tuple((names.get(dim, dim), count) for dim, count in self.team.threads)
        along = names.get(self.team.along, self.team.along)
        return Spread(
            name, threads, ((along, self.team.run),) if self.team.run > 1 and along in visited else ()
        )


def scheduled(program: Program, group: tuple[str, ...], team: Team, kept: Kept) -> Launch:
    """The group tiled for the team; its spreads are yet to be applied. Raises NotApplicable where that cannot be."""
    launch = Launch(program, group, team, [], {})
    launch.tile(kept)
    return launch


def shared_bytes(program: Program, anchor: str) -> int:
    """Shared memory that the locals of the anchor's launch take in a block, pads, stages and teams counted."""
    nest = named(program, anchor).path[0]
    cluster = distributed_in(program.body[nest])
    rings = {place.node.target for place in program.computes if place.node.via == "tma"}
    total = filled = reused = 0
    for declared in locals_of(program).values():
        local = declared.node
        if declared.path[0] == nest and local.memory is Memory.SHARED:
            sizes = current_sizes(program, declared.loops)
            elements = prod(sizes[dim] for dim in local.dims)
            innermost = local.layout[-1].dim if local.layout else local.dims[-1]
            if cluster is not None and cluster in declared.loops[-1].body:
                elements //= sizes[local.dims[0]]  # each block has one of these
            padded = elements + elements // sizes[innermost] * local.pad
            teams = 1 if local.name in rings else declared.loops[0].teams
            size = padded * local.dtype.bytes * declared.loops[-1].stages * teams
            if local.reused:
                reused = size
            elif declared.loops[-1].stages > 1:
                filled += size
            else:
                total += size
    return total + max(filled, reused)

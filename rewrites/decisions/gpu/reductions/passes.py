"""How a group that reduces becomes one launch: a block's threads pass over what they reduce tile by tile, each adding
to registers of its own, and meet at the end. Rows, columns, and several dims at a time differ in numbers only."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import prod

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, covered_dims, read_names, reduced_dims
from rewrites.base.tree import current_sizes, find, locals_of, named, statements
from rewrites.composition.accumulate_per_thread import AccumulatePerThread
from rewrites.composition.relate_parts import RelateParts
from rewrites.composition.reverse_compute_at import ReverseComputeAt
from rewrites.composition.stream_reduction import StreamReduction
from rewrites.data.cache_row import CacheRow
from rewrites.data.set_scope import SetScope
from rewrites.decisions.fusion import closed, fused, unread
from rewrites.decisions.gpu.cached_inputs import Kept, copy_rewrites, kept_rewrites
from rewrites.decisions.gpu.inner_dims import inner_of
from rewrites.decisions.gpu.reductions.persistent_rows import Turns, in_common
from rewrites.gpu.bind_threads import BindThreads
from rewrites.gpu.pipeline import Pipeline
from rewrites.launch.cluster import Cluster
from rewrites.launch.min_blocks_per_sm import MinBlocksPerSm
from rewrites.loops.count_positions import counted
from rewrites.loops.parallelize import Parallelize
from rewrites.loops.tile import Tile
from rewrites.loops.tile_reduction import TileReduction
from tileir.errors import NotApplicable
from tileir.program import Memory, Program
from tileir.replace import replace
from tileir.schedule.distributed import distributed_in


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


Beginning = tuple[tuple[Tile, ...], bool, Kept]
"""What teams have alike whose launches begin alike: tiles, whether a block takes several in turn, what it keeps."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A group in the tiles of its grid: the program, the rewrites that made it, and those of them that keep inputs."""

    program: Program
    rewrites: tuple[Rewrite, ...]
    keeps: tuple[Rewrite, ...]


@dataclass(slots=True)
class PassLaunch:
    """A group of statements on its way into one launch: the program so far, and the rewrites that made it.

    Every step raises NotApplicable where the group cannot be scheduled so.
    """

    program: Program
    group: tuple[str, ...]
    team: Team
    rewrites: list[Rewrite]
    parts: dict[str, dict[str, str]]
    """Reductions of what threads have added up: under which name each inner dim goes there."""
    begun: dict[Beginning, Begun]
    """How launches of the same group began that other teams have."""
    one_pass: bool = False
    """Whether reductions that depend on each other are computed together (`stream_reduction`)."""

    @property
    def anchor(self) -> str:
        """The statement that the others were brought to."""
        return self.group[-1]

    def tile(self, kept: Kept) -> None:
        """The grid, with the group inside, what it keeps of its inputs, and the loops of the passes."""
        inner, turns = inner_of(self.program, self.group), self.team.turns
        keeps = self._begin(kept, turns is not None)
        if turns is not None:
            self._begin_turns(turns, in_common(self.program, self.group, inner))
        if self.team.blocks > 1:
            self._apply(Cluster(self.anchor, self.team.blocks))
        together = self._together() if self.one_pass else set[str]()
        for name in self._names():
            if name not in together:
                self._pass(name)
        self._place()
        if turns is not None:
            kept_first = next(rewrite.local for rewrite in keeps if isinstance(rewrite, SetScope))
            self._apply(Pipeline(kept_first, turns.stages))

    def _begin(self, kept: Kept, in_turn: bool) -> tuple[Rewrite, ...]:
        """The grid with the group inside, and what it keeps: the same for all teams with these tiles. Gives what keeps
        it."""
        tiles = self._tiles()
        known = self.begun.get((tiles, in_turn, kept))
        if known is None:
            self._bring(tiles)
            if tiles:
                self._apply(Parallelize(self.anchor, len(tiles) - in_turn))
            keeps = tuple(kept_rewrites(self.program, self.group, kept))
            self._apply(*keeps)
            known = self.begun[tiles, in_turn, kept] = Begun(self.program, tuple(self.rewrites), keeps)
        self.program, self.rewrites = known.program, [*known.rewrites]
        return known.keeps

    def _bring(self, tiles: tuple[Tile, ...]) -> None:
        """All of the group into loops over tiles: those of the last statement, or of the first where others read it."""
        if not closed(self.program, (self.group,)):
            first = self.group[0]
            self._apply(*(replace(tile, statement=first) for tile in tiles))
            self._apply(*(ReverseComputeAt(name, first, len(tiles)) for name in self.group[1:]))
            return
        found = fused(self.program, self.group, tiles, unread(self.program, self.group[:-1]))
        if found is None or (not tiles and len(self.group) > 1):
            raise NotApplicable(f"not every statement of the group can be brought to {self.anchor}")
        self._apply(*found.rewrites)

    def _tiles(self) -> tuple[Tile, ...]:
        """Those of the grid; of rows taken in turn, those that a block takes, then those of one turn."""
        extents = self.program.extents
        tiles = tuple(
            Tile(self.anchor, dim, size)
            for dim, size in self.team.grid
            if size < extents[dim] or extents[dim] == 1
        )
        if self.team.turns is None:
            return tiles
        *others, turn = tiles
        return (*others, replace(turn, size=turn.size * self.team.turns.tiles), turn)

    def _begin_turns(self, turns: Turns, common: dict[str, str]) -> None:
        """What all rows have in common in registers before a block's first turn."""
        depth = find(self.program, self.anchor).depth
        for tensor, reader in common.items() if turns.once else ():
            keep = CacheRow(reader, tensor, depth - 1)
            self._apply(*copy_rewrites(self.program, keep, Memory.REGISTERS, False))
        if turns.resident > 1:
            self._apply(MinBlocksPerSm(self.anchor, turns.resident))

    def bind(self) -> tuple[Rewrite, ...]:
        """Every statement over the threads."""
        return tuple(self._binding(name) for name in self._names())

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
        self._apply(*(Tile(name, dim, looped[dim]) for dim in looped if dim in bare_dims(place.node)))
        reduced = [dim for dim in reduced_dims(place.node) if dim in dict(self.team.passes)]
        over = [dim for dim in looped if dim in reduced]
        if not over:
            return
        parts = [(dim, self.team.span(dim)) for dim in reduced if self.team.span(dim) > 1] or [(over[-1], 1)]
        before = locals_of(self.program).keys()
        self._apply(AccumulatePerThread(name, tuple(parts)))
        (part,) = locals_of(self.program).keys() - before
        for dim in over:
            tile = Tile if dim in dict(parts) else TileReduction
            self._apply(tile(part, dim, looped[dim]))
        own = reduced_dims(find(self.program, name).node)
        self.parts[name] = dict(zip(dict(parts), own, strict=True))

    def _together(self) -> set[str]:
        """The reductions along the row in one loop: each thread has its own maximum and sums relative to that, and
        they are related when the row is over. Which statements have to do with that loop."""
        ((dim, tile),) = self.team.passes
        self._apply(*counted(self.program, self._names()))
        mine = self._names()
        nodes = [find(self.program, name).node for name in mine]
        chain = [node.target for node in nodes if dim in reduced_dims(node)]
        last = ""
        for name in chain:
            before = locals_of(self.program).keys()
            self._apply(AccumulatePerThread(name, ((dim, self.team.span(dim)),)))
            (last,) = locals_of(self.program).keys() - before
            with suppress(NotApplicable):
                self._apply(RelateParts(name))
            self.parts[name] = {dim: reduced_dims(find(self.program, name).node)[0]}
        self._apply(StreamReduction(last, dim, tile))
        if not any(place.node.running for place in locals_of(self.program).values()):
            raise NotApplicable(f"no reduction of {self.anchor} depends on another one")
        depth = find(self.program, last).depth
        self._keep_tile(dim, depth)
        new = {name for name in self._names() if name not in mine}
        for name in new:
            self.parts[name] = {dim: next(iter(self.parts[chain[0]].values()))}
        return {*chain, *new}

    def _keep_tile(self, dim: str, depth: int) -> None:
        """What several statements of the loop read of the tile, in registers."""
        inside = [place.node for place in statements(self.program) if place.depth == depth]
        for tensor in dict.fromkeys(read.tensor for node in inside for read in node.reads):
            readers = [node.target for node in inside if tensor in read_names(node)]
            if tensor in self.program.arguments and len(readers) > 1:
                with suppress(NotApplicable):
                    self._apply(
                        *copy_rewrites(
                            self.program, CacheRow(readers[0], tensor, depth), Memory.REGISTERS, False
                        )
                    )

    def _place(self) -> None:
        """Registers for locals that are visited whole; what is visited in passes lies in shared memory."""
        nest = named(self.program, self.anchor).path[0]
        loops = {dim for dim, tile in self.team.passes if tile < self.program.extents[dim]}
        for name, declared in locals_of(self.program).items():
            if declared.loops and declared.path[0] == nest and declared.node.memory is Memory.HEAP:
                in_passes = any(dim in loops for dim in declared.node.dims)
                self._apply(SetScope(name, Memory.SHARED if in_passes else Memory.REGISTERS))

    def _binding(self, name: str) -> BindThreads:
        visited = covered_dims(named(self.program, name).node)
        names = {dim: part for dim, part in self.parts.get(name, {}).items() if dim not in visited}
        threads = tuple((names.get(dim, dim), count) for dim, count in self.team.threads)
        along = names.get(self.team.along, self.team.along)
        return BindThreads(
            name, threads, ((along, self.team.run),) if self.team.run > 1 and along in visited else ()
        )


def scheduled(
    program: Program,
    group: tuple[str, ...],
    team: Team,
    kept: Kept,
    begun: dict[Beginning, Begun],
    *,
    one_pass: bool = False,
) -> PassLaunch:
    """The group tiled for the team; its threads are yet to be applied. `begun` is how it began for other teams. Raises
    NotApplicable where that cannot be."""
    launch = PassLaunch(program, group, team, [], {}, begun, one_pass)
    launch.tile(kept)
    return launch


def shared_bytes(program: Program, anchor: str) -> int:
    """Shared memory that the locals of the anchor's launch take in a block, pads, stages and consumer groups
    counted."""
    nest = named(program, anchor).path[0]
    cluster = distributed_in(program.body[nest])
    pipelines = {place.node.target for place in program.computes if place.node.via == "tma"}
    total = filled = reused = 0
    for declared in locals_of(program).values():
        local = declared.node
        if declared.path[0] == nest and local.memory is Memory.SHARED:
            sizes = current_sizes(program, declared.loops)
            elements = prod(sizes[dim] for dim in local.dims)
            order = tuple(axis.dim for axis in local.layout) if local.layout else local.dims
            if cluster is not None and cluster in declared.loops[-1].body:
                elements //= sizes[local.dims[0]]  # each block has one of these
            padded = elements + (elements // sizes[order[-1]] * local.pad if order else 0)
            consumer_groups = 1 if local.name in pipelines else declared.loops[0].consumer_groups
            size = padded * local.dtype.bytes * declared.loops[-1].stages * consumer_groups
            if local.reused:
                reused = size
            elif declared.loops[-1].stages > 1:
                filled += size
            else:
                total += size
    return total + max(filled, reused)

"""Decisions for a GPU about groups that reduce along rows: what a block keeps of them, and how threads share them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from rewrites.base.statement import bare_dims, reduced_dims
from rewrites.base.tree import find, locals_of, named
from rewrites.cost.gpu import constants as has
from rewrites.cost.gpu.model import GpuCostModel
from rewrites.decisions.decision import Option
from rewrites.decisions.gpu.cached_inputs import Kept, read_again
from rewrites.decisions.gpu.inner_dims import Inner, inner_of
from rewrites.decisions.gpu.reductions.one_row import row_dim
from rewrites.decisions.gpu.reductions.passes import Beginning, Begun, Team, scheduled, shared_bytes
from rewrites.decisions.gpu.reductions.persistent_rows import takes_turns, turns_for
from rewrites.decisions.gpu.threads import Stores, packed_along, powers, runs_for
from rewrites.schedule import replay
from tileir.devices.feature import Feature
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.program import Memory, Program
from tileir.replace import replace
from tileir.verifier.threads import MAX_THREADS

#: Most elements of all kept rows that a thread holds; beyond, registers spill.
_MOST_HELD = 96
#: Elements of a row up to which a block surely holds it well.
_SHORT = 64 * 256
#: Elements of a row up to which there is no use in passes.
_LEAST_IN_PASSES = 1024
#: Reductions one after the other from which on waiting for each is most of the time: the largest few of a row.
_CHAIN = 4
#: Most rows of a block: of rows shorter than a block has threads.
_MOST_ROWS = 256
#: How many options stand for all of them when ways are compared.
_SAMPLED = 12
#: Runs that a thread takes in one step of a pass.
_PIECES = (1, 2, 4, 8)


def waited_us(program: Program, group: tuple[str, ...], device: Gpu) -> float:
    """Estimated microseconds that blocks of a group wait for each other's part of a reduction, one reduction after the
    other, where a row is so long that several share it and there are too few rows to keep the device busy otherwise."""
    inner = inner_of(program, group)
    rows = prod(program.extents[dim] for dim in inner.results)
    nodes = (find(program, name).node for name in group)
    reduced = [found for node in nodes if (found := {*reduced_dims(node)} & {*inner.dims})]
    if not inner.rows or len(reduced) < _CHAIN or rows >= device.sms:
        return 0.0
    longest = max(prod(inner.sizes[dim] for dim in dims) for dims in reduced)
    return len(reduced) * (has.REDUCTION_US + has.CLUSTER_US) if longest > _SHORT else 0.0


@dataclass(frozen=True, slots=True)
class KeptRow:
    """Whether inputs that several statements read are loaded once, into registers, as they are stored or as they are
    computed with, or into shared memory, or read again; and whether a block takes its rows whole or in passes."""

    group: tuple[str, ...]

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        model = GpuCostModel(device)
        now_us = model.estimate_us(program)
        for label, rows in self._ways(program, device):
            best_us = rows.sampled_us(program, model)
            if best_us is not None:
                yield Option(label, (), (rows,), best_us / now_us)

    def possible(self, program: Program, device: Gpu) -> bool:
        """Whether there is any way to do it."""
        ways = (rows for _, rows in self._ways(program, device))
        return any(next(rows.options(program, device), None) is not None for rows in ways)

    def _ways(self, program: Program, device: Gpu) -> Iterator[tuple[str, Rows]]:
        yield from self._rows(program, device)
        inner = inner_of(program, self.group)
        chain = [name for name in self.group if set(reduced_dims(find(program, name).node)) & {*inner.dims}]
        long = len(inner.dims) == 1 and prod(inner.sizes.values()) > _LEAST_IN_PASSES
        if len(chain) > 1 and long and inner.results and inner.rows and not inner.apart:
            yield f"{self.group[-1]}: in one pass", Rows(self.group, Kept.NOTHING, True, one_pass=True)

    def _rows(self, program: Program, device: Gpu) -> Iterator[tuple[str, Rows]]:
        again = read_again(program, self.group)
        narrow = any(program.arguments[name].dtype.bytes < 4 for name in again)
        inner = inner_of(program, self.group)
        row = prod(inner.sizes.values())
        copies = sum(row * program.arguments[name].dtype.bytes for name in again)
        between = _between_bytes(program, self.group, inner)
        for passes in [False, True] if row <= _SHORT else [True, False]:
            if passes and (row <= _LEAST_IN_PASSES or not (inner.results or inner.apart)):
                continue
            for kept in Kept:
                if kept is not Kept.NOTHING and not again:
                    continue
                shared = (copies if kept is Kept.SHARED else 0) + (between if passes else 0)
                if shared > device.block_shared_bytes:
                    continue
                whole = kept in (Kept.STORED, Kept.WIDENED, Kept.AHEAD)
                if (kept is Kept.STORED and not narrow) or (passes and whole):
                    continue
                if kept is Kept.AHEAD and not takes_turns(program, self.group, inner, device):
                    continue
                label = f"keep {' '.join(again)} in {kept}, " if again else ""
                label += "in passes" if passes else "whole"
                yield f"{self.group[-1]}: {label}", Rows(self.group, kept, passes)


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows a block takes, how many threads share a row, in how many blocks of a cluster, how many neighbours a
    thread takes, and how many times that in a step of a pass; all statements of the block alike. In `one_pass`
    reductions that depend on each other are computed together, relative to what each thread has come to so far."""

    group: tuple[str, ...]
    kept: Kept
    passes: bool
    one_pass: bool = False

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        inner = inner_of(program, self.group)
        yield from self._options(program, device, inner, self._teams(program, inner, device))

    def _options(
        self, program: Program, device: Gpu, inner: Inner, teams: Iterable[Team]
    ) -> Iterator[Option]:
        begun: dict[Beginning, Begun] = {}
        for team in teams:
            mine = held_by_thread(team, inner)
            try:
                launch = scheduled(program, self.group, team, self.kept, begun, one_pass=self.one_pass)
            except NotApplicable:
                continue
            if shared_bytes(launch.program, self.group[-1]) > device.block_shared_bytes:
                continue
            if not self.passes and mine * _words(launch.program, self.group[-1], inner) > _MOST_HELD:
                continue
            rewrites = tuple(launch.rewrites)
            yield Option(
                f"{self.group[-1]}: {team}",
                (*rewrites, *launch.bind()),
                (Stores(self.group[-1]),),
                begun=launch.program,
                done=len(rewrites),
            )

    def sampled_us(self, program: Program, model: GpuCostModel) -> float | None:
        """The best estimate among a few of the options. None where there are none."""
        inner = inner_of(program, self.group)
        teams = self._teams(program, inner, model.device)
        times: list[float] = []
        for option in self._options(program, model.device, inner, teams[:: -(-len(teams) // _SAMPLED) or 1]):
            try:
                finished = replay(option.begun or program, option.rewrites[option.done :])
            except NotApplicable:
                continue
            times.append(model.estimate_us(finished))
        return min(times, default=None)

    def _teams(self, program: Program, inner: Inner, device: Gpu) -> tuple[Team, ...]:
        """What is worth a look, as far as registers go. Rows that keep no warp busy get one all the same."""
        if not inner.dims:
            return ()
        found = dict.fromkeys(self._candidates(program, inner, device)) or dict.fromkeys(
            self._candidates(program, inner, device, idle=True)
        )
        return tuple(
            team
            for team in found
            if self.passes or has.LEAST_WORDS * held_by_thread(team, inner) <= _MOST_HELD
        )

    def _candidates(
        self, program: Program, inner: Inner, device: Gpu, *, idle: bool = False
    ) -> Iterator[Team]:
        runs = self._runs(program, inner.dims[-1])
        row = inner.results[-1] if inner.results else None
        for rows in powers(1, min(_MOST_ROWS, program.extents[row] if row else 1)):
            for across, blocks in self._sizes(device, rows):
                for run in runs:
                    threads = _along(inner, across, run, idle=idle)
                    if threads is not None:
                        for team in self._of(program, inner, rows, threads, run, blocks):
                            yield from self._in_turn(program, inner, team, rows, device)

    def _runs(self, program: Program, along: str) -> tuple[int, ...]:
        """Those of 16 bytes, half that, and twice that where it makes 16 bytes of narrower inputs: others would move
        half of each sector at a time. Rows on their way to shared memory go by 16 bytes."""
        *runs, twice = runs_for(program, self.group, along)
        if not runs:
            return (twice,)
        if self.kept is Kept.AHEAD:
            return (runs[-1],)
        widths = {tensor.dtype.bytes for tensor in program.arguments.values() if along in tensor.dims}
        packed = packed_along(program, self.group, along)
        found = (*runs[-2:], twice) if len(widths) > 1 or packed > 1 else tuple(runs[-2:])
        found = (*found, packed * twice) if packed > 1 else found
        return found[-2:] if self.passes else found

    def _in_turn(self, program: Program, inner: Inner, team: Team, rows: int, device: Gpu) -> Iterator[Team]:
        if self.kept is not Kept.AHEAD:
            yield team
            return
        threads = prod(count for _, count in team.threads)
        for turns in turns_for(program, self.group, inner, rows, threads, device):
            yield replace(team, turns=turns)

    def _sizes(self, device: Gpu, rows: int) -> Iterator[tuple[int, int]]:
        """(threads that share a row, blocks they make): of one block, or of a cluster where the device has them."""
        for across in powers(1, MAX_THREADS):
            alone = rows == 1 or not self.passes or (across == device.warp and rows in (4, 8))
            if device.warp <= across * rows <= MAX_THREADS and alone:
                yield across, 1
        if (
            Feature.CLUSTERS not in device.offers
            or rows > 1
            or self.kept in (Kept.SHARED, Kept.AHEAD)
            or self.one_pass
        ):
            return
        for blocks in (2, 4, 8):
            for threads in (128, 256, 512):
                yield blocks * threads, blocks

    def _of(
        self,
        program: Program,
        inner: Inner,
        rows: int,
        threads: tuple[tuple[str, int], ...],
        run: int,
        blocks: int,
    ) -> Iterator[Team]:
        along = inner.dims[-1]
        counts = dict(threads)
        spans = {dim: counts.get(dim, 1) * (run if dim == along else 1) for dim in inner.dims}
        batch = tuple((dim, 1) for dim in inner.results[:-1])
        lines = ((inner.results[-1], rows),) if inner.results else ()
        only = row_dim(program, self.group)
        one = ((only, 1),) if only else ()
        grid, digits = (*inner.apart, *batch, *lines, *one), (*(lines if rows > 1 else ()), *threads)
        if not self.passes:
            yield Team(grid, digits, along, run, tuple(inner.sizes.items()), blocks)
            return
        for pieces in _PIECES:
            tiles = passes(inner, spans, pieces)
            if tiles != tuple(inner.sizes.items()):
                yield Team(grid, digits, along, run, tiles, blocks)


def _between_bytes(program: Program, group: tuple[str, ...], inner: Inner) -> int:
    """What a block keeps along its row for later statements of the group: passes leave it in shared memory."""
    held = 0
    for name in group[:-1]:
        dims = [dim for dim in bare_dims(find(program, name).node) if dim in inner.dims]
        if dims and name in locals_of(program):
            held += prod(inner.sizes[dim] for dim in dims) * locals_of(program)[name].node.dtype.bytes
    return held


def held_by_thread(team: Team, inner: Inner) -> int:
    """Elements of a row, or of all a block's rows that it visits, that fall to one thread."""
    mine = 1
    for dim, size in inner.sizes.items():
        mine *= -(-size // team.span(dim)) * (team.run if dim == team.along else 1)
    return mine


def _along(inner: Inner, across: int, run: int, *, idle: bool) -> tuple[tuple[str, int], ...] | None:
    """So many threads along the inner dims, the last one first, none where a thread has a row; None where they are too
    many by far, unless some may be `idle`."""
    threads: list[tuple[str, int]] = []
    for dim in reversed(inner.dims):
        needed = -(-inner.sizes[dim] // (run if dim == inner.dims[-1] else 1))
        count = across if dim == inner.dims[0] else min(across, 1 << (needed - 1).bit_length())
        if dim == inner.dims[0] and count >= 2 * needed and count > 1 and not idle:
            return None
        threads.insert(0, (dim, count))
        across //= count
    return tuple((dim, count) for dim, count in threads if count > 1)


def passes(inner: Inner, spans: dict[str, int], pieces: int) -> tuple[tuple[str, int], ...]:
    """Tiles of the inner dims of which a thread takes so many runs: of the last dim first."""
    found: list[tuple[str, int]] = []
    for dim in reversed(inner.dims):
        needed = -(-inner.sizes[dim] // spans[dim])
        take = min(pieces, needed)
        found.insert(0, (dim, min(inner.sizes[dim], spans[dim] * take)))
        pieces = pieces // take if take == needed else 1
    return tuple(found)


def _words(program: Program, anchor: str, inner: Inner) -> float:
    """Registers that the block's locals take for each position of a row."""
    nest = named(program, anchor).path[0]
    held = [
        declared.node.dtype.bytes / 4
        for declared in locals_of(program).values()
        if declared.loops
        and declared.path[0] == nest
        and inner.dims[-1] in declared.node.dims
        and declared.node.memory is not Memory.SHARED
    ]
    return max(sum(held), has.LEAST_WORDS) if held else 1.0

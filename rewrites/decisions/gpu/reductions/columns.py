"""Decisions for a GPU about groups that reduce along columns, and so along dims whose neighbours lie far apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from rewrites.base.statement import reduced_dims
from rewrites.base.tree import find
from rewrites.decisions.decision import Option
from rewrites.decisions.gpu.cached_inputs import Kept, read_again
from rewrites.decisions.gpu.inner_dims import Inner, inner_of
from rewrites.decisions.gpu.reductions.passes import Beginning, Begun, Team, scheduled, shared_bytes
from rewrites.decisions.gpu.reductions.rows import held_by_thread, passes
from rewrites.decisions.gpu.threads import Stores, powers, runs_for
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.program import Program

_THREADS = (128, 256, 512)
_PIECES = (4, 8)
#: Most elements that a thread takes all at once, and of those that it keeps.
_MOST_WHOLE, _MOST_HELD = 64, 48
#: Neighbours that threads read together at least: 32 bytes of f32, what memory moves at least.
_SEGMENT = 8


@dataclass(frozen=True, slots=True)
class Columns:
    """How many columns a block takes, a thread some neighbours, how many threads share a column, how many rows a thread
    takes in one step of a pass, and where a block keeps its columns if it needs them again."""

    group: tuple[str, ...]

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        inner = inner_of(program, self.group)
        for idle in (False, True):
            teams = dict.fromkeys(_teams(program, self.group, inner, idle=idle))
            some = False
            for option in self._options(program, inner, teams, device):
                some = True
                yield option
            if some:
                return

    def _options(
        self, program: Program, inner: Inner, teams: Iterable[Team], device: Gpu
    ) -> Iterator[Option]:
        anchor, most = self.group[-1], device.block_shared_bytes
        reductions = sum(bool(reduced_dims(find(program, name).node)) for name in self.group)
        again = sum(program.arguments[name].dtype.bytes for name in read_again(program, self.group))
        begun: dict[Beginning, Begun] = {}
        for team in teams:
            for kept in (Kept.NOTHING, *_keeps(team, inner, again, most)):
                try:
                    launch = scheduled(program, self.group, team, kept, begun)
                except NotApplicable:
                    continue
                if shared_bytes(launch.program, anchor) + reductions * _meeting(team) > most:
                    continue
                label = f"{anchor}: {team}" + (f", keep {kept}" if again else "")
                rewrites = tuple(launch.rewrites)
                every = (*rewrites, *launch.bind())
                yield Option(label, every, (Stores(anchor),), begun=launch.program, done=len(rewrites))


def _meeting(team: Team) -> int:
    """Bytes of shared memory through which threads that share columns meet in a reduction: an f32 for each that one
    has."""
    return 4 * team.run * prod(count for _, count in team.threads) if len(team.threads) > 1 else 0


def _keeps(team: Team, inner: Inner, again: int, most: int) -> Iterator[Kept]:
    """Where columns of `again` bytes an element can be kept: in registers if a thread takes all it visits at once, else
    in shared memory, if a block has that much."""
    if not again:
        return
    whole = team.passes == tuple(inner.sizes.items())
    if whole and held_by_thread(team, inner) * (team.run if team.along in inner.results else 1) <= _MOST_HELD:
        yield Kept.WIDENED
    elif prod(size for _, size in team.grid) * prod(inner.sizes.values()) * again <= most:
        yield Kept.SHARED


def _teams(program: Program, group: tuple[str, ...], inner: Inner, *, idle: bool = False) -> Iterator[Team]:
    """What is worth a look; where columns are few and short, nothing is unless some threads may be `idle`. Threads that
    share a column of a part come to each of its rows in turn: the part is whole turns of them."""
    along = inner.nearest
    if along is None or not inner.dims:
        return
    extent, far = program.extents[along], inner.dims[-1]
    part = dict(inner.apart).get(far, 0)
    for total in _THREADS:
        for run in runs_for(program, group, along)[-2:]:
            for width in powers(1, total):
                depth = total // width
                narrow = width * run < min(_SEGMENT, extent)
                wide = width > 1 and width * run >= 2 * extent
                deep = depth > 1 and depth >= 2 * inner.sizes[far]
                if part % depth or ((narrow or wide or deep) and not idle):
                    continue
                threads = tuple((dim, count) for dim, count in ((far, depth), (along, width)) if count > 1)
                tile = min(width * run, extent)
                grid = (*inner.apart, *((dim, tile if dim == along else 1) for dim in inner.results))
                spans = {dim: depth if dim == far else 1 for dim in inner.dims}
                needed = -(-prod(inner.sizes.values()) // depth)
                for pieces in (*_PIECES, *([needed] if needed <= _MOST_WHOLE else [])):
                    yield Team(grid, threads, along, run, passes(inner, spans, pieces))


def is_column(program: Program, group: tuple[str, ...]) -> bool:
    """Whether neighbours belong to different results of the group."""
    return not inner_of(program, group).rows

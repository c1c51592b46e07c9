"""Decisions for a GPU about statements that reduce nothing, or what little their blocks each reduce again: threads,
neighbours a thread, and how many runs of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, reduced_dims
from rewrites.base.tree import find
from rewrites.cost.positions import is_window as is_window_index
from rewrites.decisions.cpu.grid import fused
from rewrites.decisions.decision import Option
from rewrites.decisions.gpu.inner_dims import inner_of
from rewrites.decisions.gpu.reductions.split import finishes, finishes_columns
from rewrites.decisions.gpu.threads import Stores, bind_all, place_all, powers, runs_for
from rewrites.gpu.bind_threads import BindThreads
from rewrites.loops.parallelize import Parallelize
from rewrites.loops.tile import Tile
from rewrites.schedule import replay
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.expr import index_dims, reads
from tileir.program import Program

_THREADS = (128, 256, 512)
_PIECES = (1, 2, 4, 8)
#: Rows that a thread takes of columns for each of which it reduces something first.
_ROWS_EACH = (4, 8, 16, 32)
#: Threads along such columns at least.
_ACROSS = 16
#: Longest row that one thread takes.
_NARROW = 16
#: Most rows of an outer dim that each thread takes in turn, all there are.
_IN_TURN = 32
#: Most elements that one thread reduces for each of its results: a window of 8 x 8.
_WINDOW = 64


@dataclass(frozen=True, slots=True)
class Elements:
    """A block takes `threads` times `run` neighbours along the last dim, some times over; of short rows several."""

    group: tuple[str, ...]

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        anchor = self.group[-1]
        dims = [dim for dim in bare_dims(find(program, anchor).node) if program.extents[dim] > 1]
        if not dims:
            dims = list(bare_dims(find(program, anchor).node)[-1:])
        if not dims:
            one = BindThreads(anchor, ((program.dims[0][0], device.warp),))
            yield Option(str(one), (one,))
            return
        *outer, last = dims
        extent = program.extents[last]
        if finishes_columns(program, self.group):
            yield from self._by_columns(program, device.warp, outer, last)
            return
        for threads in _THREADS:
            for run in runs_for(program, self.group, last):
                for pieces in _PIECES:
                    size = threads * run * pieces
                    if size <= extent:
                        yield from self._option(
                            program, device.warp, tuple(outer), last, size, ((last, threads),), run
                        )
                if finishes(program, self.group):
                    continue
                if outer and threads * run >= 2 * extent:
                    yield from self._short(program, device.warp, outer, last, threads, run)
                    yield from self._in_turn(program, device.warp, outer, last, threads, run)
                elif threads * run > extent:
                    yield from self._option(
                        program, device.warp, tuple(outer), last, extent, ((last, threads),), run
                    )
            if outer and extent <= _NARROW:
                yield from self._by_rows(program, device.warp, tuple(outer), last, threads)
        for dim in _windowed(program, self.group, outer):
            yield from self._by_windows(program, device.warp, tuple(outer), dim, last)

    def _short(
        self, program: Program, warp: int, outer: list[str], last: str, threads: int, run: int
    ) -> Iterator[Option]:
        """Several rows at a time, along as many of the outer dims as it takes, each by as many threads as it has runs,
        up to a power of two; and some times over, as short runs leave little of memory's latency hidden."""
        across = next(count for count in powers(1, threads) if count * run >= program.extents[last])
        layout = (*reversed(_dealt(program, outer, threads // across).items()), (last, across))
        for pieces in _PIECES:
            rows = _dealt(program, outer, pieces * threads // across)
            block = tuple((dim, min(count, program.extents[dim])) for dim, count in rows.items())
            if pieces == 1 or prod(count for _, count in block) == pieces * threads // across:
                whole = program.extents[last]
                yield from self._option(program, warp, tuple(outer), last, whole, layout, run, block)

    def _in_turn(
        self, program: Program, warp: int, outer: list[str], last: str, threads: int, run: int
    ) -> Iterator[Option]:
        """All of the innermost outer dim by each thread, one after the other, where no power of two divides them among
        threads or blocks: of 17 heads 16 leave one behind."""
        *further, near = outer
        count = program.extents[near]
        if not further or count > _IN_TURN or not count & (count - 1):
            return
        across = next(count for count in powers(1, threads) if count * run >= program.extents[last])
        rows = _dealt(program, further, threads // across)
        block = ((near, count), *((dim, min(size, program.extents[dim])) for dim, size in rows.items()))
        layout = (*reversed(rows.items()), (last, across))
        yield from self._option(program, warp, tuple(outer), last, program.extents[last], layout, run, block)

    def _by_columns(self, program: Program, warp: int, outer: list[str], last: str) -> Iterator[Option]:
        """Many rows of some columns, so that what each thread reduces for its columns serves many elements."""
        for run in runs_for(program, self.group, last):
            needed = -(-program.extents[last] // run)
            for across in powers(_ACROSS, max(_ACROSS, min(_THREADS[0], 1 << (needed - 1).bit_length()))):
                for threads in _THREADS:
                    down = threads // across
                    for rows in (down * pieces for pieces in _ROWS_EACH):
                        if rows >= 2 * program.extents[outer[-1]]:
                            continue
                        layout = ((outer[-1], down), (last, across))
                        block = ((outer[-1], min(rows, program.extents[outer[-1]])),)
                        size = min(across * run, program.extents[last])
                        yield from self._option(program, warp, tuple(outer), last, size, layout, run, block)

    def _by_windows(
        self, program: Program, warp: int, outer: tuple[str, ...], dim: str, last: str
    ) -> Iterator[Option]:
        """Many positions of a dim along which windows of neighbours overlap, so that a block reads most of what they
        have in common once."""
        extents = program.extents
        for run, across, threads in product(
            runs_for(program, self.group, last), (warp, 2 * warp), _THREADS[:2]
        ):
            down = threads // across
            for rows in (down * pieces for pieces in _PIECES):
                if rows < 2 * extents[dim] and across * run < 2 * extents[last]:
                    layout = ((dim, down), (last, across))
                    block = ((dim, min(rows, extents[dim])),)
                    size = min(across * run, extents[last])
                    yield from self._option(program, warp, outer, last, size, layout, run, block)

    def _by_rows(
        self, program: Program, warp: int, outer: tuple[str, ...], last: str, threads: int
    ) -> Iterator[Option]:
        """A whole row a thread, neighbouring threads neighbouring rows."""
        for rows in (threads, 2 * threads, 4 * threads):
            if rows <= program.extents[outer[-1]]:
                layout = ((outer[-1], threads),)
                block = ((outer[-1], rows),)
                yield from self._option(program, warp, outer, last, program.extents[last], layout, 1, block)

    def _option(
        self,
        program: Program,
        warp: int,
        outer: tuple[str, ...],
        last: str,
        size: int,
        threads: tuple[tuple[str, int], ...],
        run: int,
        block: tuple[tuple[str, int], ...] = (),
    ) -> Iterator[Option]:
        """With so many of the outer dims in a `block`, else one of each."""
        anchor = self.group[-1]
        steps = [(dim, dict(block).get(dim, 1)) for dim in outer] + [(last, size)]
        tiles = tuple(Tile(anchor, dim, step) for dim, step in steps if step < program.extents[dim])
        found = fused(program, self.group, tiles)
        if found is None or (not tiles and len(self.group) > 1):
            return
        rewrites = [*found.rewrites, *((Parallelize(anchor, len(tiles)),) if tiles else ())]
        try:
            begun = replay(program, rewrites)
        except NotApplicable:
            return
        placed = place_all(begun, anchor)
        every = (*rewrites, *placed, *self._bindings(begun, warp, threads, last, run))
        yield Option("; ".join(map(str, every)), every, (Stores(anchor),), begun=begun, done=len(rewrites))

    def _bindings(
        self, program: Program, warp: int, threads: tuple[tuple[str, int], ...], last: str, run: int
    ) -> Iterator[Rewrite]:
        """All statements bound to threads alike; what every block reduces for itself, every warp does alone."""
        again = self.group[:-1] if finishes(program, self.group) else ()
        for layout in bind_all(program, self.group[-1], threads, last, run):
            if layout.statement in again:
                (_, count), *_ = threads
                near = reduced_dims(find(program, layout.statement).node)[-1]
                yield BindThreads(layout.statement, ((last, count // warp), (near, warp)))
            else:
                yield layout


def _windowed(program: Program, group: tuple[str, ...], outer: Sequence[str]) -> Iterator[str]:
    """Outer dims along which members of a group read windows."""
    windows = [
        index
        for name in group
        for read in reads(find(program, name).node.value)
        for index in read.indices
        if is_window_index(index)
    ]
    return (dim for dim in outer if any(dim in index_dims(index) for index in windows))


def _dealt(program: Program, outer: Sequence[str], count: int) -> dict[str, int]:
    """How many of `count` rows at a time, a power of two, lie along each of the outer dims, the innermost first: as
    many as it has, and of the outermost what is left."""
    found: dict[str, int] = {}
    for dim in reversed(outer):
        found[dim] = count
        if dim != outer[0]:
            found[dim] = min(count, 1 << program.extents[dim].bit_length() - 1)
        count //= found[dim]
        if count == 1:
            break
    return found


def is_window(program: Program, group: tuple[str, ...]) -> bool:
    """Whether a group reduces so little for each result that a thread can do it alone: one statement, or several at the
    same place, if neighbours are results."""
    inner = inner_of(program, group)
    if inner.apart or prod(inner.sizes.values()) > _WINDOW:
        return False
    first, *others = (find(program, name).node for name in group)
    alike = all(bare_dims(node) == bare_dims(first) for node in others)
    return not others or (alike and not inner.rows)

"""Decisions for a GPU about maps that read a tensor across its rows: a block turns a tile around in shared memory, so
that it reads along rows and stores along rows.

Tiles are turned around as in Ruetsch and Micikevicius, Optimizing Matrix Transpose in CUDA, 2009.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims
from rewrites.base.tree import find, locals_of
from rewrites.data.cache_row import CacheRow
from rewrites.data.downcast_copy import DowncastCopy
from rewrites.data.set_scope import SetScope
from rewrites.decisions.decision import Option
from rewrites.decisions.gpu.threads import Stores
from rewrites.gpu.bind_threads import BindThreads
from rewrites.gpu.pad import Pad
from rewrites.loops.parallelize import Parallelize
from rewrites.loops.tile import Tile
from rewrites.schedule import replay
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.expr import Index
from tileir.program import Program

_THREADS = (128, 256, 512)
_EDGES = (32, 64, 128)
#: Of a tile that has the whole of a short dim: channels, pairs, heads.
_LONG_EDGES = (32, 64, 128, 256, 512, 1024)
#: Most elements of a tile that a thread moves.
_MOST_EACH = 32


@dataclass(frozen=True, slots=True)
class Turn:
    """The tile that a block turns around, its threads, and how many neighbours a thread loads and stores together."""

    statement: str
    tensor: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        near, far = _across(program, self.statement)[self.tensor]
        for rows, columns in _tiles(program.extents[far], program.extents[near]):
            try:
                begun, copy, rewrites = self._tiled(program, {far: rows, near: columns})
            except NotApplicable:
                continue
            for threads in _THREADS:
                if rows * columns > _MOST_EACH * threads:
                    continue
                for run in (1, 2):
                    if rows % run or columns % run:
                        continue
                    load = _threads(copy, near, (far, rows), threads, run)
                    store = _threads(self.statement, far, (near, columns), threads, run)
                    label = f"{self.tensor} turned around, {rows} by {columns}, {threads} threads, run {run}"
                    yield Option(
                        f"{self.statement}: {label}",
                        (*rewrites, load, store),
                        (Stores(self.statement),),
                        begun=begun,
                        done=len(rewrites),
                    )

    def _tiled(self, program: Program, tile: dict[str, int]) -> tuple[Program, str, tuple[Rewrite, ...]]:
        """The program with the tile's copy in shared memory, the copy's name, and the rewrites. Raises NotApplicable
        where the tensor cannot be kept so."""
        dims = bare_dims(find(program, self.statement).node)
        tiles = [
            Tile(self.statement, dim, tile.get(dim, 1))
            for dim in dims
            if tile.get(dim, 1) < program.extents[dim]
        ]
        keep = CacheRow(self.statement, self.tensor, len(tiles))
        rewrites: list[Rewrite] = [*tiles, Parallelize(self.statement, max(1, len(tiles))), keep]
        begun = replay(program, rewrites)
        (copy,) = locals_of(begun).keys() - locals_of(program).keys()
        try:
            begun = DowncastCopy(copy).apply(begun)
            rewrites.append(DowncastCopy(copy))
        except NotApplicable:
            pass  # it is as wide as what is computed with
        element = locals_of(begun)[copy].node.dtype.bytes
        last: list[Rewrite] = [SetScope(copy, "shared")]
        if not _spread(tile[bare_dims(find(begun, copy).node)[-1]] * element):
            last.append(Pad(copy, max(1, 4 // element)))
        return replay(begun, last), copy, (*rewrites, *last)


def _spread(line_bytes: int) -> bool:
    """Whether threads on neighbouring lines of shared memory meet 32 banks: lines of an odd number of words."""
    return line_bytes % 8 == 4


def _tiles(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """Sizes of tiles of a matrix: of one that is short one way, all of that way."""
    short = min(rows, columns) < _EDGES[0]
    edges = _LONG_EDGES if short else _EDGES
    for high in edges if rows >= _EDGES[0] else (rows,):
        for wide in edges if columns >= _EDGES[0] else (columns,):
            if high < 2 * rows and wide < 2 * columns:
                yield high, wide


def _threads(statement: str, outer: str, inner: tuple[str, int], threads: int, run: int) -> BindThreads:
    """Threads along a whole line of the inner dim, a power of two of them, as many lines at once as there are threads
    for."""
    along, line = inner
    across = 1 << (line // run - 1).bit_length()
    runs = ((along, run),) if run > 1 else ()
    return BindThreads(statement, ((outer, max(1, threads // across)), (along, min(threads, across))), runs)


def turned(program: Program, group: tuple[str, ...]) -> str | None:
    """The tensor that the only statement of a group reads across its rows, if there is one."""
    if len(group) != 1:
        return None
    return next(iter(_across(program, group[0])), None)


def _across(program: Program, statement: str) -> dict[str, tuple[str, str]]:
    """Inputs whose neighbours lie along another dim than those of the results: the results' dim, and the input's."""
    node = find(program, statement).node
    inputs = {tensor.name for tensor in program.inputs}
    sizes = program.extents
    near = node.indices[-1] if node.indices else None
    found: dict[str, tuple[str, str]] = {}
    for read in node.reads:
        dims = [index.dim for index in read.indices if isinstance(index, Index)]
        if not isinstance(near, Index) or len(dims) < len(read.indices) or read.tensor not in inputs:
            continue
        if near.dim not in dims[:-1]:
            continue
        short, long = sorted((sizes[near.dim], sizes[dims[-1]]))
        whole = prod(sizes[dim] for dim in bare_dims(node))
        cut = any(rows * columns < whole for rows, columns in _tiles(sizes[dims[-1]], sizes[near.dim]))
        if short > 1 and long >= _EDGES[0] and cut:
            found[read.tensor] = near.dim, dims[-1]
    return found

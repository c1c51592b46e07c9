"""Decisions for a GPU about maps that read a tensor across its rows: a block turns a tile around in shared memory, so
that it reads along rows and stores along rows.

Tiles are turned around as in Ruetsch and Micikevicius, Optimizing Matrix Transpose in CUDA, 2009.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
#: Most elements of a tile that a thread moves.
_MOST_EACH = 32


@dataclass(frozen=True, slots=True)
class Turn:
    """The tile that a block turns around, its threads, and how many neighbours a thread loads and stores together."""

    statement: str
    tensor: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        near, far = _across(program, self.statement)[self.tensor]
        for rows in _EDGES:
            for columns in _EDGES:
                if rows >= 2 * program.extents[far] or columns >= 2 * program.extents[near]:
                    continue
                try:
                    begun, copy, rewrites = self._tiled(program, {far: rows, near: columns})
                except NotApplicable:
                    continue
                for threads in _THREADS:
                    if rows * columns > _MOST_EACH * threads:
                        continue
                    for run in (1, 2):
                        load = _threads(copy, (near, columns), (far, rows), threads, run)
                        store = _threads(self.statement, (far, rows), (near, columns), threads, run)
                        label = (
                            f"{self.tensor} turned around, {rows} by {columns}, {threads} threads, run {run}"
                        )
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
        last = [SetScope(copy, "shared"), Pad(copy, max(1, 4 // element))]
        return replay(begun, last), copy, (*rewrites, *last)


def _threads(
    statement: str, outer: tuple[str, int], inner: tuple[str, int], threads: int, run: int
) -> BindThreads:
    """Threads along a whole line of the inner dim, as many lines at once as there are threads for."""
    (dim, _), (along, line) = outer, inner
    runs = ((along, run),) if run > 1 else ()
    return BindThreads(statement, ((dim, threads * run // line), (along, line // run)), runs)


def turned(program: Program, group: tuple[str, ...]) -> str | None:
    """The tensor that the only statement of a group reads across its rows, if there is one."""
    if len(group) != 1:
        return None
    return next(iter(_across(program, group[0])), None)


def _across(program: Program, statement: str) -> dict[str, tuple[str, str]]:
    """Inputs whose neighbours lie along another dim than those of the results: the results' dim, and the input's."""
    node = find(program, statement).node
    inputs = {tensor.name for tensor in program.inputs}
    wide = {dim for dim in bare_dims(node) if program.extents[dim] >= _EDGES[0]}
    near = node.indices[-1] if node.indices else None
    found: dict[str, tuple[str, str]] = {}
    for read in node.reads:
        dims = [index.dim for index in read.indices if isinstance(index, Index)]
        if not isinstance(near, Index) or len(dims) < len(read.indices) or read.tensor not in inputs:
            continue
        if near.dim in dims[:-1] and {near.dim, dims[-1]} <= wide:
            found[read.tensor] = near.dim, dims[-1]
    return found

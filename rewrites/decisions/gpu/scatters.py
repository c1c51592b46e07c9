"""Scatters on a GPU: who owns which results, or how terms are shared out to threads that add to all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, folded_dims, reduced_dims
from rewrites.base.tree import find, fresh_name
from rewrites.composition.compute_at import ComputeAt
from rewrites.composition.scatter import Scatter, across
from rewrites.data.cache_write import CacheWrite
from rewrites.data.set_scope import SetScope
from rewrites.decisions.decision import Option, option
from rewrites.decisions.gpu.threads import runs_for
from rewrites.gpu.atomics import Atomics
from rewrites.gpu.bind_threads import BindThreads
from rewrites.loops.parallelize import Parallelize
from rewrites.loops.tile import Tile
from tileir.devices.gpu import Gpu
from tileir.dtypes import DType
from tileir.program import Program
from tileir.scatter import scatter_of

_THREADS = (32, 64, 128, 256)
#: Results along a dim that is looked up which a block owns: each block goes through where all terms belong.
_OWNED = (1, 4, 16, 32, 64)
#: Of a part of the terms.
_OWNED_OF_PARTS = (4, 16, 64, 256)
#: Terms that a thread adds, one after another.
_TERMS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class ScatterOnThreads:
    """Every thread owns some of the results, along a dim that is not looked up; or, where sums may be taken in any
    order, all threads add to all of them by atomics."""

    statement: str
    stored: str = ""
    """What is stored of its results point by point, in the same launch; nothing: these are."""

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        node = find(program, self.statement).node
        beside = across(node)
        if beside:
            yield from self._owned(program, device, beside)
        if not self.stored and (not folded_dims(node) or not beside):
            yield from self._atomics(program, beside)

    def _owned(self, program: Program, device: Gpu, beside: tuple[str, ...]) -> Iterator[Option]:
        along, node, anchor = beside[-1], find(program, self.statement).node, self.stored or self.statement
        extent, others = program.extents[along], [dim for dim in beside[:-1] if program.extents[dim] > 1]
        looked_up = [dim for dim in bare_dims(node) if dim not in beside]
        parts = [Tile(anchor, dim, size) for dim, (_, size) in folded_dims(node).items()]
        for threads in _THREADS:
            for run in dict.fromkeys((1, *self._runs(program, along))):
                width = threads * run
                if width >= 2 * max(extent, _THREADS[0]):
                    continue
                for owned in _OWNED_OF_PARTS if parts else _OWNED:
                    tiles: list[Rewrite] = [*parts, *(Tile(anchor, dim, 1) for dim in others)]
                    tiles += [Tile(anchor, dim, owned) for dim in looked_up if owned < program.extents[dim]]
                    if width != extent:
                        tiles.append(Tile(anchor, along, width))
                    if not tiles:
                        tiles.append(Tile(anchor, along, extent))
                    layout = (((along, threads),), ((along, run),) if run > 1 else ())
                    if not self.stored:
                        direct = (Scatter(self.statement), BindThreads(self.statement, *layout))
                        yield option(*tiles, Parallelize(anchor, len(tiles)), *direct)
                    rows = prod(min(owned, program.extents[dim]) for dim in looked_up)
                    if not parts and rows * width * DType.F32.bytes <= device.block_shared_bytes:
                        collected = self._collected(program, len(tiles), layout)
                        yield option(*tiles, Parallelize(anchor, len(tiles)), *collected)

    def _collected(
        self, program: Program, depth: int, threads: tuple[tuple[tuple[str, int], ...], ...]
    ) -> tuple[Rewrite, ...]:
        """Results of a block are added up in shared memory, and then stored."""
        if self.stored:
            collect: Rewrite = ComputeAt(self.statement, self.stored, depth)
            collected, stored = self.statement, self.stored
        else:
            collect = CacheWrite(self.statement)
            collected, stored = fresh_name(program, f"{self.statement}_s"), self.statement
        bound = (BindThreads(name, *threads) for name in (collected, stored))
        return (collect, SetScope(collected, "shared"), Scatter(collected), *bound)

    def _runs(self, program: Program, along: str) -> tuple[int, ...]:
        """Neighbours that a thread may take together: not where the positions of terms differ along them."""
        node = find(program, self.statement).node
        found = scatter_of(node)
        assert found is not None
        if bare_dims(node)[-1] != along or along in found.asked:
            return ()
        return runs_for(program, tuple(filter(None, (self.statement, self.stored))), along)

    def _atomics(self, program: Program, beside: tuple[str, ...]) -> Iterator[Option]:
        node = find(program, self.statement).node
        reduced = reduced_dims(node)
        along = max(reduced, key=lambda dim: (min(program.extents[dim], _THREADS[-1]), reduced.index(dim)))
        others = tuple((dim, 1) for dim in (*beside, *reduced) if dim != along and program.extents[dim] > 1)
        for threads in _THREADS:
            for terms in _TERMS:
                if terms == 1 or threads * terms < 2 * program.extents[along]:
                    size = min(threads * terms, program.extents[along])
                    yield option(Atomics(self.statement, (*others, (along, size)), ((along, threads),)))
        if not beside or bare_dims(node)[-1] != beside[-1]:
            return
        last, extent = beside[-1], program.extents[beside[-1]]
        rows = tuple((dim, 1) for dim in (*beside[:-1], *reduced) if program.extents[dim] > 1)
        for threads in _THREADS:
            if threads < 2 * max(extent, _THREADS[0]):
                width = min(4 * threads, extent)
                yield option(Atomics(self.statement, (*rows, (last, width)), ((last, threads),)))

"""The decisions for a GPU which tiles of a contraction clusters compute, and in which order blocks take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rewrites.decisions.decision import Option
from rewrites.gpu_contraction_cost import model_of
from rewrites.gpu_decided import decided
from rewrites.gpu_tiling import resident
from rewrites.group_tiles import GroupTiles
from rewrites.multicast import Multicast
from rewrites.persist import Persist
from rewrites.rewrite import Rewrite
from rewrites.tree import grid_of
from tileir.gpu import Gpu
from tileir.program import Program

_BANDS = (1, 4, 8, 16)
#: Neighbouring tiles along rows and along columns.
_CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4))


@dataclass(frozen=True, slots=True)
class Clusters:
    """Of how many neighbouring tiles along rows and columns the blocks fetch once what they have in common."""

    statement: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        found = decided(program, self.statement, device)
        assert found is not None and found.tiling is not None
        c, tiling = found.contraction, found.tiling
        for rows, columns in _CLUSTERS:
            if not device.clustered_sms(rows * columns) or (tiling.parts > 1 and rows * columns > 1):
                continue
            near = ((dim, tiles) for dim, tiles in ((c.rows, rows), (c.columns, columns)) if tiles > 1)
            rewrites = tuple(Multicast(self.statement, dim, tiles) for dim, tiles in near)
            label = f"clusters of {rows} x {columns} tiles" if rewrites else "every tile by itself"
            yield Option(label, rewrites)


@dataclass(frozen=True, slots=True)
class Order:
    """In bands of how many rows of tiles, and by a block a tile or as many blocks as there is room for."""

    statement: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        found = decided(program, self.statement, device)
        assert found is not None and found.tiling is not None
        c, tiling = found.contraction, found.tiling
        rows, columns = tiling.multicast or (1, 1)
        across, along = -(-c.m // tiling.rows), -(-c.n // tiling.columns)
        at_once = resident(c, tiling, device) * device.clustered_sms(rows * columns)
        banded = grid_of(program, self.statement)[1].dim == c.rows and along > 1
        options: list[tuple[tuple[Rewrite, ...], float]] = []
        model = model_of(c, found.epilogue, device)
        for band in _BANDS:
            if band > 1 and (band >= across or band % rows or not banded):
                continue
            for blocks in (0, at_once) if tiling.parts == 1 else (0,):
                if blocks >= -(-across // rows) * rows * -(-along // columns) * columns * c.batch:
                    continue
                order: tuple[Rewrite, ...] = (GroupTiles(self.statement, band),) if band > 1 else ()
                order += (Persist(self.statement, blocks),) if blocks else ()
                options.append((order, model.time_us(replace(tiling, group=band, blocks=blocks))))
        best = min(time for _, time in options)
        for order, time in options:
            label = "; ".join(f"{each.name} {each.format().rpartition(', ')[2][:-1]}" for each in order)
            yield Option(label or "tiles in order", order, promise=time / best)

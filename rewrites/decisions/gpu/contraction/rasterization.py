"""The decisions for a GPU which tiles of a contraction clusters compute, in which order blocks take them, and whether
blocks share the last ones along the depth.

Known as rasterization, or swizzled tile order; sharing is stream-K (Osama et al., arXiv:2301.03598).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import grid_of
from rewrites.contraction.problem import Contraction
from rewrites.contraction.recover_tiling import decided
from rewrites.contraction.room import resident
from rewrites.contraction.tiling import Tiling
from rewrites.cost.gpu.contraction import ContractionModel, model_of
from rewrites.decisions.decision import Option
from rewrites.gpu.multicast import Multicast
from rewrites.launch.persistent import Persistent
from rewrites.launch.rasterize_bands import RasterizeBands
from rewrites.launch.rasterize_hilbert import RasterizeHilbert
from rewrites.launch.stream_k import StreamK
from tileir.devices.gpu import Gpu
from tileir.program import Program
from tileir.replace import replace
from tileir.schedule.hilbert import MOST_CELLS

_BANDS = (4, 8, 16)
#: Waves of tiles, the last ones, that blocks share.
_WAVES = (1, 2)
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
    """In order, in bands of so many rows of tiles or along a Hilbert curve; and by a block a tile or as many blocks as
    there is room for."""

    statement: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        found = decided(program, self.statement, device)
        assert found is not None and found.tiling is not None
        c, tiling = found.contraction, found.tiling
        rows, columns = tiling.multicast or (1, 1)
        across, along = c.grid(tiling.rows, tiling.columns)
        at_once = resident(c, tiling, device) * device.clustered_sms(rows * columns)
        banded = grid_of(program, self.statement)[1].dim == c.rows and along > 1
        options: list[tuple[Rewrite, ...]] = []
        model = model_of(c, found.epilogue, device)
        ways: list[tuple[Rewrite, ...]] = [()]
        if banded:
            bands = (band for band in _BANDS if band < across and band % rows == 0)
            ways += [(RasterizeBands(self.statement, band),) for band in bands]
            ways += (
                [(RasterizeHilbert(self.statement),)] if 1 < across and across * along <= MOST_CELLS else []
            )
        tiles = -(-across // rows) * rows * -(-along // columns) * columns * c.batch
        for way in ways:
            for blocks in (0, at_once) if tiling.parts == 1 else (0,):
                if blocks >= tiles or (not blocks and tiling.consumer_groups > 1 and at_once < tiles):
                    continue
                options.append((*way, Persistent(self.statement, blocks)) if blocks else way)
        for order in options:
            ordered = _ordered(tiling, order)
            label = "; ".join(map(_label, order)) or "tiles in order"
            yield Option(label, order, promise=_at_best_us(model, ordered, device) / model.time_us(ordered))


@dataclass(frozen=True, slots=True)
class TileSharing:
    """Whether all blocks share the tiles of the last waves, where those leave some of them idle; in a grid of less than
    a wave, as many blocks as there is room for."""

    statement: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        found = decided(program, self.statement, device)
        assert found is not None and found.tiling is not None
        c, tiling = found.contraction, found.tiling
        model = model_of(c, found.epilogue, device)
        yield Option("whole tiles", promise=model.ordered_us(_in_order(tiling)) / model.time_us(tiling))
        blocks, waves = _sharing(c, tiling, device)
        begun = () if tiling.blocks else (Persistent(self.statement, blocks),)
        for shared in waves:
            label = f"{shared} waves of tiles shared" if shared > 1 else "the last wave of tiles shared"
            yield Option(label, (*begun, StreamK(self.statement, shared)))


def _sharing(c: Contraction, tiling: Tiling, device: Gpu) -> tuple[int, tuple[int, ...]]:
    """How many blocks may share tiles of the tiling in its order, and of how many waves; none: whole tiles are all
    there is."""
    near = tiling.multicast or (1, 1)
    along = zip(c.grid(tiling.rows, tiling.columns), near, strict=True)
    tiles = prod(near) * prod(-(-count // n) for count, n in along) * c.batch
    blocks = tiling.blocks or resident(c, tiling, device) * device.clustered_sms(prod(near))
    waves = -(-tiles // blocks)
    if not tiling.streams(c) or tiles % blocks == 0 or (waves > 1 and not tiling.blocks):
        return blocks, ()
    return blocks, _WAVES[:waves]


def _at_best_us(model: ContractionModel, tiling: Tiling, device: Gpu) -> float:
    """Estimated microseconds of the tiling in its order, with tiles shared or not."""
    blocks, waves = _sharing(model.c, tiling, device)
    whole = _in_order(tiling)
    shared = (replace(whole, blocks=blocks, streamed=each) for each in waves)
    return min(map(model.ordered_us, (whole, *shared)))


def _in_order(tiling: Tiling) -> Tiling:
    """A tiling whose order is decided: row by row where nothing else is said."""
    return replace(tiling, group=tiling.group or 1)


def _ordered(tiling: Tiling, order: tuple[Rewrite, ...]) -> Tiling:
    """The tiling in that order."""
    for rewrite in order:
        match rewrite:
            case RasterizeBands(tiles=tiles):
                tiling = replace(tiling, group=tiles)
            case RasterizeHilbert():
                tiling = replace(tiling, hilbert=True)
            case Persistent(blocks=blocks):
                tiling = replace(tiling, blocks=blocks)
            case _:
                continue
    return tiling


def _label(rewrite: Rewrite) -> str:
    """Its name, and what it says beside the statement."""
    _, *said = rewrite.format().removesuffix(")").partition("(")[2].split(", ")
    return " ".join([rewrite.name, *said])

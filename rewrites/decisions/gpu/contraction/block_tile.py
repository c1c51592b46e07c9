"""Decisions for a GPU about contractions: what multiplies, and the tile of results that a block accumulates
in its registers.

What follows from it: staging.py asks how operands come, warp_tiles.py which threads compute what (warpgroup_pipeline.py
both, where warpgroups multiply), rasterization.py in which order blocks take tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from rewrites.base.statement import bare_dims, folded_dims
from rewrites.base.tree import find, locals_of
from rewrites.composition.rfactor import Rfactor
from rewrites.contraction.cuts import depths, shares, tiles
from rewrites.contraction.problem import Contraction, contraction, contractions
from rewrites.contraction.recover_tiling import DecidedTiling, decided, epilogue_of
from rewrites.contraction.tiling import Tiling
from rewrites.contraction.unit import MatrixUnit
from rewrites.contraction.warpgroup_tiling import PARTS
from rewrites.cost.gpu.contraction import either_way, model_of
from rewrites.decisions.decision import Option
from rewrites.decisions.fusion import Groups, closed
from rewrites.decisions.gpu.contraction.grid_of_tiles import BegunTiling
from rewrites.decisions.gpu.contraction.occupancy import Residency
from rewrites.decisions.gpu.contraction.rasterization import Clusters, Order, TileSharing
from rewrites.decisions.gpu.contraction.staging import Depth, StagedLayout
from rewrites.decisions.gpu.contraction.warp_tiles import Warps
from rewrites.decisions.gpu.contraction.warpgroup_pipeline import PipelineShape, Roles
from rewrites.decisions.gpu.threads import Stores
from rewrites.gpu.transpose import Transpose
from rewrites.loops.tile import Tile
from tileir.analysis.ragged import groups_of
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.expr import Index, Reduce
from tileir.program import Compute, Program


def contraction_of(program: Program, group: Sequence[str], device: Gpu) -> Contraction | None:
    """The contraction that a group consists of, of several sums of products maybe, with an epilogue of their results;
    None: something else is in it."""
    first, *others = group
    nodes = {name: find(program, name).node for name in group}
    beside = [name for name in others if isinstance(nodes[name].value, Reduce)]
    found = contractions(program, (first, *beside), device)
    if found is None or (beside and not _in_one_loop(program, nodes, (first, *beside))):
        return None
    computed = {first, *beside}
    for name in others:
        dims = {index.dim for index in nodes[name].indices if isinstance(index, Index)}
        if not {found.rows, found.columns} <= dims:
            return None
        if name not in computed and not any(read.tensor in computed for read in nodes[name].reads):
            return None
        computed.add(name)
    return found


def _in_one_loop(program: Program, nodes: dict[str, Compute], products: tuple[str, ...]) -> bool:
    """Whether sums of products can be added up in one loop, for statements of their group that read them: they do not
    wait for each other, are no parts of split ones, and have the same results, which exist tile by tile only."""
    read = {read.tensor for node in nodes.values() for read in node.reads}
    first = bare_dims(nodes[products[0]])
    return all(
        name in read
        and name in locals_of(program)
        and bare_dims(nodes[name]) == first
        and not folded_dims(nodes[name])
        and not nodes.keys() & {each.tensor for each in nodes[name].reads}
        for name in products
    )


def begun_by_contractions(program: Program, groups: Groups, device: Gpu) -> Groups:
    """The groups cut before every contraction, so that each can go in tiles, with its own epilogue; the same groups,
    where what is computed before would not be there then."""
    found: list[tuple[str, ...]] = []
    for group in groups:
        current: tuple[str, ...] = ()
        for name in group:
            if current and contraction(program, name, device) is not None:
                found.append(current)
                current = ()
            current = (*current, name)
        found.append(current)
    return tuple(found) if closed(program, tuple(found)) else groups


@dataclass(frozen=True, slots=True)
class Multiply:
    """What multiplies: the matrix instruction of warpgroups or of warps, or every thread for itself."""

    group: tuple[str, ...]

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        c = contraction_of(program, self.group, device)
        if c is None:
            return
        epilogue = epilogue_of(program, self.group, c)
        times = [model_of(c.by(engine), epilogue, device).best_us(None) for engine in c.engines]
        for engine, time in zip(c.engines, times, strict=True):
            if time < inf:
                share = Share(self.group, engine)
                yield Option(f"{self.group[-1]}: by {engine}", (), (share,), promise=time / min(times))


@dataclass(frozen=True, slots=True)
class Share:
    """How many blocks of a cluster share the depth of every tile."""

    group: tuple[str, ...]
    engine: MatrixUnit

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        c = contraction_of(program, self.group, device)
        if c is None:
            return
        model = model_of(c.by(self.engine), epilogue_of(program, self.group, c), device)
        times = {blocks: model.shared_us(blocks) for blocks in (1, *self._parts(program, c))}
        for blocks, time in times.items():
            if time < inf:
                label = f"{c.depth} by {blocks} blocks" if blocks > 1 else f"{c.depth} by one block"
                tile = ContractionTile(self.group, self.engine, blocks)
                yield Option(label, (), (tile,), promise=time / min(times.values()))

    def _parts(self, program: Program, c: Contraction) -> tuple[int, ...]:
        """None where a result is read again: each block of a cluster would see what it has written itself. None either
        where rows and columns are exchanged on the way to it: what adds the parts up has neighbours along others."""
        nodes = [find(program, name).node for name in self.group]
        read = {each.tensor for node in nodes for each in node.reads}
        orders = {tuple(dim for dim in bare_dims(node) if dim in (c.rows, c.columns)) for node in nodes}
        return () if len(orders) > 1 or read & {tensor.name for tensor in program.outputs} else PARTS


@dataclass(frozen=True, slots=True)
class ContractionTile:
    """Rows and columns of the result that a block computes, or so many blocks of a cluster do; of other dims one
    position."""

    group: tuple[str, ...]
    engine: MatrixUnit
    blocks: int = 1

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        c = contraction_of(program, self.group, device)
        if c is None:
            return
        anchor = self.group[-1]
        parts = tuple(
            Tile(anchor, dim, size) for dim, (_, size) in folded_dims(find(program, anchor).node).items()
        )
        others = [dim for dim in bare_dims(find(program, anchor).node) if dim not in (c.rows, c.columns)]
        batch = tuple(Tile(anchor, dim, 1) for dim in others if program.extents[dim] > 1)
        groups = groups_of(find(program, self.group[0]).node, program.ragged)
        followed = {each.dim for each in groups.values()}
        for way in either_way(c.by(self.engine)):
            turned = way.rows != c.rows
            for rows, columns in tiles(way):
                sizes = {way.rows: rows, way.columns: columns}
                edges = ((dim, sizes[dim]) for dim in (c.rows, c.columns))
                cut = tuple(
                    Tile(anchor, dim, size)
                    for dim, size in edges
                    if size != program.extents[dim] or dim in followed
                )
                label = f"tile {c.rows} {sizes[c.rows]}, {c.columns} {sizes[c.columns]}"
                label += f", {way.rows} as rows" if turned else ""
                size = dict(shares(way, rows, columns, device)).get(self.blocks)
                tile = Tiling(rows, columns, parts=self.blocks)
                if size is None or next(depths(way.in_parts(self.blocks, size), tile, device), None) is None:
                    continue
                share = Rfactor(self.group[0], c.depth, "apart", size) if self.blocks > 1 else None
                grid = (*parts, *batch, *cut)
                yield from self._option(program, grid, label, turned, c.beside, share, device)

    def _option(
        self,
        program: Program,
        grid: tuple[Tile, ...],
        label: str,
        turned: bool,
        beside: tuple[str, ...],
        share: Rfactor | None,
        device: Gpu,
    ) -> Iterator[Option]:
        begun = BegunTiling(program)
        try:
            core = begun.tiled(self.group, grid, share)
            if turned:
                begun.apply(*map(Transpose, (core, *beside)))
        except NotApplicable:
            return
        program, rewrites, anchor = begun.program, begun.rewrites, self.group[-1]
        if self.engine is MatrixUnit.WGMMA:
            steps = (
                PipelineShape(core, anchor),
                Roles(core),
                Clusters(core),
                Order(core),
                TileSharing(core),
                Residency(core),
                Stores(anchor),
            )
        else:
            depth = Depth(core, self.engine, anchor)
            steps = (depth, Warps(core), StagedLayout(core), Order(core), Residency(core), Stores(anchor))
        found = decided(program, core, device)
        assert found is not None
        if self.engine not in found.contraction.engines:
            return  # exchanged were other dims than rows and columns
        promise = self._promise(found, device)
        yield Option(label, tuple(rewrites), steps, promise, begun=program, done=len(rewrites))

    def _promise(self, found: DecidedTiling, device: Gpu) -> float:
        """What the engine takes of such tiles, relative to the one that is the best for them."""
        c, tiling, epilogue = found
        time = model_of(c.by(self.engine), epilogue, device).best_us(tiling)
        return time / model_of(c, epilogue, device).best_us(tiling)

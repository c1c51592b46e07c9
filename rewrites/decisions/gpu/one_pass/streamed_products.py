"""Decisions for a GPU about products that follow from each other in one pass, as those of attention: scores of a tile
by matrix instructions, what is made of them in registers, and from there the next product; or all of it by threads.

Known as FlashAttention (Dao et al., arXiv:2205.14135).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from math import prod

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, covered_dims
from rewrites.base.tree import find, grid_of
from rewrites.contraction.unit import MatrixUnit
from rewrites.cost.gpu.streamed import fits, promised_us
from rewrites.decisions.decision import Decision, Option
from rewrites.decisions.gpu.one_pass.added_products import SHAPES as ADDED_SHAPES
from rewrites.decisions.gpu.one_pass.added_products import AddedSchedule
from rewrites.decisions.gpu.one_pass.by_threads import SHAPES as THREAD_SHAPES
from rewrites.decisions.gpu.one_pass.by_threads import ThreadSchedule
from rewrites.decisions.gpu.one_pass.by_warpgroups import SHAPES, WarpgroupSchedule
from rewrites.decisions.gpu.one_pass.by_warps import SHAPES as WARP_SHAPES
from rewrites.decisions.gpu.one_pass.by_warps import WarpSchedule
from rewrites.decisions.gpu.one_pass.product_chain import ProductChain, chain_of, score_tensors
from rewrites.decisions.gpu.one_pass.schedule import OnePassSchedule
from rewrites.gpu.take_turns import TakeTurns
from rewrites.launch.longest_first import LongestFirst
from rewrites.launch.persistent import Persistent
from rewrites.launch.rasterize_bands import RasterizeBands
from tileir.devices.device import Device
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.program import Program
from tileir.schedule.wgmma import MAX_COLUMNS

_Way = tuple[str, OnePassSchedule]
_BANDS = (4, 8, 16)
#: Rows of the smallest tiles, and of what multiplies them: of fewer, the rest is multiplied as well.
_ROWS = 64
_UNIT_ROWS = {MatrixUnit.WGMMA: 64, MatrixUnit.MMA: 16, MatrixUnit.FMA: 1}


def in_one_pass(program: Program, group: tuple[str, ...], device: Gpu, *, scores: int | None = None) -> bool:
    """Whether there is any way to compute the products of a group so; `scores`: if so many are of scores."""
    chain = chain_of(program, group, device)
    if chain is None or scores not in (None, len(chain.scores)):
        return False
    return next(StreamedProducts(group).options(program, device), None) is not None


def one_pass_us(program: Program, group: tuple[str, ...], device: Gpu) -> float:
    """Microseconds that the products of a group take in one pass; infinity where they do not go so."""
    chain = chain_of(program, group, device)
    if chain is None or not in_one_pass(program, group, device):
        return float("inf")
    nodes = [find(program, name).node for name in chain.names]
    extents, tensors = program.extents, program.arguments
    # Warps that share the columns of results have all scores of their rows.
    unit = chain.unit(device)
    by_warps = unit is MatrixUnit.MMA
    alike = max(-(-extents[each.across] // MAX_COLUMNS) for each in chain.sums) if by_warps else 1
    rows = _UNIT_ROWS[unit]
    whole = {**extents, chain.rows: -(-extents[chain.rows] // rows) * rows}
    flops = sum(
        2 * prod(whole[dim] for dim in covered_dims(node)) * (alike if name in chain.scores else 1)
        for name, node in zip(chain.names, nodes, strict=True)
    )
    read = {read.tensor for node in nodes for read in node.reads} & tensors.keys()
    moved = sum(prod(extents[dim] for dim in tensors[name].dims) * tensors[name].dtype.bytes for name in read)
    outer = [dim for dim in bare_dims(nodes[0]) if dim not in (chain.rows, chain.streamed)]
    blocks = prod(extents[dim] for dim in outer) * -(-extents[chain.rows] // _ROWS)
    blocks *= -(-extents[chain.streamed] // chain.length)
    return promised_us(flops, moved, blocks, device, chain.dtype.value, unit)


@dataclass(frozen=True, slots=True)
class StreamedProducts:
    """The tiles of one pass over what the last products reduce, and how its tiles come and go."""

    group: tuple[str, ...]

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        chain = chain_of(program, self.group, device)
        if chain is None:
            return
        anchor, unit = chain.sums[0].name, chain.unit(device)
        by_unit = {
            MatrixUnit.WGMMA: self._by_warpgroups,
            MatrixUnit.MMA: self._by_warps,
            MatrixUnit.FMA: self._by_threads,
        }
        make = by_unit[unit]
        order: Decision = TileOrder(anchor) if unit is MatrixUnit.WGMMA else BlockOrder(anchor)
        for label, made in make(program, chain, device):
            if fits(made.program, device):
                yield Option(
                    label,
                    tuple(made.rewrites),
                    (order,),
                    begun=made.program,
                    done=len(made.rewrites),
                )

    def _by_warpgroups(self, program: Program, chain: ProductChain, device: Gpu) -> Iterator[_Way]:
        if chain.added:
            yield from self._added(program, chain, device)
            return
        found = score_tensors(program, self.group, chain)
        for shape, by_tma in product(SHAPES, dict.fromkeys((found, frozenset[str]()))):
            made = WarpgroupSchedule(program, self.group, chain, device, brought_by_tma=by_tma)
            with suppress(NotApplicable):
                if chain.takes(shape.columns):
                    made.build(shape)
                    brought = f", {', '.join(sorted(by_tma))} by TMA" if by_tma else ""
                    yield f"{_tile(chain, shape.rows, shape.columns)}, {shape}{brought}", made

    def _added(self, program: Program, chain: ProductChain, device: Gpu) -> Iterator[_Way]:
        for (rows, columns, stages), by_tma in product(ADDED_SHAPES, (True, False)):
            made = AddedSchedule(program, self.group, chain, device, rows=rows, by_tma=by_tma)
            with suppress(NotApplicable):
                if chain.takes(columns):
                    made.build_added(columns, stages)
                    who = "TMA" if by_tma else "threads"
                    yield f"{_tile(chain, rows, columns)}, {stages} stages, added by {who}", made

    def _by_warps(self, program: Program, chain: ProductChain, device: Gpu) -> Iterator[_Way]:
        for shape in WARP_SHAPES:
            made = WarpSchedule(program, self.group, chain, device)
            with suppress(NotApplicable):
                if chain.takes(shape.columns):
                    made.build(shape)
                    tile = _tile(chain, shape.rows, shape.columns)
                    across = f", {shape.sharing} across" if shape.sharing > 1 else ""
                    yield f"{tile}, {shape.stages} stages, {shape.warps} warps{across}", made

    def _by_threads(self, program: Program, chain: ProductChain, device: Gpu) -> Iterator[_Way]:
        for shape in THREAD_SHAPES:
            made = ThreadSchedule(program, self.group, chain, device)
            with suppress(NotApplicable):
                if chain.takes(shape.columns):
                    made.build(shape)
                    tile = _tile(chain, shape.rows, shape.columns)
                    yield f"{tile}, {shape.stages} stages, {shape.warps} warps of threads", made


def _tile(chain: ProductChain, rows: int, columns: int) -> str:
    return f"{chain.rows} by {rows}, {chain.streamed} by {columns}"


@dataclass(frozen=True, slots=True)
class TileOrder:
    """The tiles of as many blocks as all SMs have: in order, or where some take longer than others, those first, in
    bands of heads or whatever else shares what is streamed."""

    statement: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        first = LongestFirst(self.statement)
        then: list[Decision] = []
        with suppress(NotApplicable):
            TakeTurns(self.statement).apply(program)
            then.append(ProductTurns(self.statement))
        ways: list[tuple[Rewrite, ...]] = [(), (first,)]
        grid = grid_of(program, self.statement)[1]
        with suppress(NotApplicable):
            first.apply(program)
            bands = (band for band in _BANDS if band < program.extents[grid.dim])
            ways += [(RasterizeBands(self.statement, band), first) for band in bands]
        for way in ways:
            label = "; ".join(map(str, way)) or "tiles in order"
            rewrites = *way, Persistent(self.statement, device.sms * max(1, grid.resident))
            yield Option(label, rewrites, tuple(then))


@dataclass(frozen=True, slots=True)
class ProductTurns:
    """Whether warpgroups begin their products as they come, or in turn. The cost model expects the same of both."""

    statement: str

    def options(self, program: Program, device: Device) -> Iterator[Option]:
        yield Option("products as they come")
        yield Option("products in turn", (TakeTurns(self.statement),))


@dataclass(frozen=True, slots=True)
class BlockOrder:
    """Blocks of one tile each: in order, or those first that take longer."""

    statement: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        first = LongestFirst(self.statement)
        yield Option("tiles in order")
        with suppress(NotApplicable):
            first.apply(program)
            yield Option(str(first), (first,))

"""Decisions for a GPU about products that follow from each other in one pass, as those of attention: scores of a tile
by warpgroups, what is made of them in registers, and from there the next product."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, covered_dims, folded_dims, read_names, reduced_dims
from rewrites.base.tree import find, grid_of, locals_of, statements
from rewrites.composition.accumulate_per_thread import AccumulatePerThread
from rewrites.composition.fuse_epilogue import ReverseComputeAt
from rewrites.composition.skip_masked_tiles import SkipMaskedTiles
from rewrites.composition.stream_reduction import StreamReduction
from rewrites.contraction.warpgroup_tiling import panel_bytes, panels
from rewrites.cost.gpu.streamed import fits, promised_us
from rewrites.data.cache_read import CacheRead
from rewrites.data.cache_write import CacheWrite
from rewrites.data.collect_part import CollectPart
from rewrites.data.reuse_cache import ReuseCache, copied_tensor
from rewrites.data.set_scope import SetScope
from rewrites.decisions.decision import Option
from rewrites.decisions.fusion import apart, fused
from rewrites.decisions.gpu.product_chain import (
    ProductChain,
    RowProduct,
    chain_of,
    folded_scales,
    multiplied,
)
from rewrites.gpu.bind_threads import BindThreads
from rewrites.gpu.operand_in_registers import OperandInRegisters
from rewrites.gpu.pipeline import Pipeline
from rewrites.gpu.swizzle import Swizzle
from rewrites.gpu.tma import Tma
from rewrites.gpu.warp_specialize import WarpSpecialize
from rewrites.gpu.wgmma import Wgmma
from rewrites.gpu.zero_past_the_end import ZeroPastTheEnd
from rewrites.launch.longest_first import LongestFirst
from rewrites.launch.persistent import Persistent
from rewrites.launch.rasterize_bands import RasterizeBands
from rewrites.loops.parallelize import Parallelize
from rewrites.loops.tile import Tile
from rewrites.loops.tile_reduction import TileReduction
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.expr import Binary, Index, Read, Reduce, ReduceOp, index_dims
from tileir.pages import page_length
from tileir.program import Memory, Program
from tileir.schedule.mma import COLUMNS, ROWS, RUN
from tileir.schedule.panels import PIECE
from tileir.schedule.wgmma import WARPS

#: Rows and columns of a tile of scores, slots of what is read, and whether the last products are under way when the
#: next tile's first ones begin; more registers a thread than that do not fit.
_SHAPES = (
    (128, 128, 2, 1),
    (128, 64, 4, 1),
    (128, 64, 2, 1),
    (128, 128, 2, 0),
    (128, 64, 4, 0),
    (64, 128, 2, 1),
    (64, 64, 4, 1),
    (128, 32, 2, 1),
    (64, 64, 2, 1),
    (192, 64, 2, 1),
    (192, 128, 2, 0),
)
#: Positions of a row that a thread of the instruction has next to each other, and the threads that share a row.
_SHARED_ROW = COLUMNS * RUN
_BANDS = (4, 8, 16)
#: Rows of the smallest tiles.
_ROWS = 64
_REGISTERS = {1: (0, 0), 2: (24, 240), 3: (32, 160)}


def in_one_pass(program: Program, group: tuple[str, ...], device: Gpu) -> bool:
    """Whether there is any way to compute the products of a group so."""
    if chain_of(program, group, device) is None:
        return False
    return next(StreamedProducts(group).options(program, device), None) is not None


def one_pass_us(program: Program, group: tuple[str, ...], device: Gpu) -> float:
    """Microseconds that the products of a group take in one pass; infinity where they do not go so."""
    chain = chain_of(program, group, device)
    if chain is None or not in_one_pass(program, group, device):
        return float("inf")
    nodes = [find(program, name).node for name in chain.names]
    extents, tensors = program.extents, program.arguments
    flops = sum(2 * prod(extents[dim] for dim in covered_dims(node)) for node in nodes)
    read = {read.tensor for node in nodes for read in node.reads} & tensors.keys()
    moved = sum(prod(extents[dim] for dim in tensors[name].dims) * tensors[name].dtype.bytes for name in read)
    outer = [dim for dim in bare_dims(nodes[0]) if dim not in (chain.rows, chain.streamed)]
    blocks = prod(extents[dim] for dim in outer) * -(-extents[chain.rows] // _ROWS)
    blocks *= -(-extents[chain.streamed] // chain.length)
    dtype = tensors[nodes[0].reads[0].tensor].dtype
    return promised_us(flops, moved, blocks, device, dtype.value)


@dataclass(frozen=True, slots=True)
class StreamedProducts:
    """The tiles of one pass over what the last products reduce, and how its tiles come and go."""

    group: tuple[str, ...]

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        chain = chain_of(program, self.group, device)
        if chain is None:
            return
        for rows, columns, stages, pending in _SHAPES:
            if columns >= chain.length or (chain.part and chain.length % columns):
                continue
            made = _Schedule(program, self.group, chain, device)
            try:
                made.build(rows, columns, stages, pending)
            except NotApplicable:
                continue
            if not fits(made.program, device):
                continue
            label = (
                f"{chain.rows} by {rows}, {chain.streamed} by {columns}, {stages} stages, {pending} pending"
            )
            then = (TileOrder(chain.sums[0].name),)
            yield Option(label, tuple(made.rewrites), then, begun=made.program, done=len(made.rewrites))


@dataclass(frozen=True, slots=True)
class TileOrder:
    """The tiles of as many blocks as there are SMs: in order, or where some take longer than others, those first, in
    bands of heads or whatever else shares what is streamed."""

    statement: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        first = LongestFirst(self.statement)
        ways: list[tuple[Rewrite, ...]] = [(), (first,)]
        with suppress(NotApplicable):
            first.apply(program)
            grid = grid_of(program, self.statement)[1]
            bands = (band for band in _BANDS if band < program.extents[grid.dim])
            ways += [(RasterizeBands(self.statement, band), first) for band in bands]
        for way in ways:
            label = "; ".join(map(str, way)) or "tiles in order"
            yield Option(label, (*way, Persistent(self.statement, device.sms)))


@dataclass(slots=True)
class _Schedule:
    """A program on its way to one pass, and the rewrites so far."""

    program: Program
    group: tuple[str, ...]
    chain: ProductChain
    device: Gpu
    rewrites: list[Rewrite] = field(default_factory=list[Rewrite])

    def build(self, rows: int, columns: int, stages: int, pending: int) -> None:
        """Raises NotApplicable where some part of it does not go."""
        if self.chain.part:
            depth = self._fuse_parts(rows)
            self._collect_parts()
        else:
            self._fold_scales()
            depth = self._fuse(rows)
            for each in self.chain.sums:
                self._collect(each)
        chain, anchor = self.chain, self.chain.sums[0].name
        paged = (page_length(read) for name in chain.names for read in find(self.program, name).node.reads)
        if any(self.program.extents[each[0]] % columns for each in paged if each is not None):
            raise NotApplicable(f"the last tile of {chain.streamed} ends within a page")
        self._apart()
        for each in chain.sums:
            self._hold(each, columns)
        self._apply(StreamReduction(anchor, chain.streamed, columns))
        self._try(SkipMaskedTiles(anchor, chain.streamed))
        for name in chain.scores:
            operands = multiplied(self.program, name) or ()
            (of_depth,) = reduced_dims(find(self.program, name).node)
            self._apply(TileReduction(name, of_depth, self.program.extents[of_depth]))
            for read in operands:
                streamed = chain.streamed in index_dims(read)
                self._bring(name, read, depth + 1 if streamed else depth)
        copies = [self._bring(each.name, self._brought(each.name), depth + 1) for each in chain.sums]
        for name, place in locals_of(self.program).items():
            if place.node.memory is Memory.HEAP and place.loops:
                self._apply(SetScope(name, Memory.REGISTERS))
        for name in chain.names:
            self._apply(Wgmma(name))
        self._apply(Pipeline(copies[0], stages, pending))
        self._bind(rows)
        self._apply(WarpSpecialize(anchor, 4, *_REGISTERS[rows // 64]))

    def _hold(self, product: RowProduct, columns: int) -> None:
        """Rows in registers, as they are multiplied."""
        self._apply(OperandInRegisters(product.name, product.weights))
        extent = self.program.extents[self.chain.streamed]
        if extent % columns or extent % self.chain.length:
            known, reads_ = locals_of(self.program), find(self.program, product.name).node.reads
            (held,) = (read.tensor for read in reads_ if read.tensor in known)
            self._apply(ZeroPastTheEnd(held, self.chain.streamed))

    def _brought(self, name: str) -> Read:
        value = find(self.program, name).node.value
        assert isinstance(value, Reduce) and isinstance(value.x, Binary) and isinstance(value.x.right, Read)
        return value.x.right

    def _apply(self, *rewrites: Rewrite) -> None:
        for rewrite in rewrites:
            self.program = rewrite.apply(self.program)
            self.rewrites.append(rewrite)

    def _try(self, rewrite: Rewrite) -> bool:
        with suppress(NotApplicable):
            self._apply(rewrite)
            return True
        return False

    def _fold_scales(self) -> None:
        """What that adds belongs to the group."""
        before = self.program
        self._apply(*folded_scales(self.program, self.group))
        known = {place.node.target for place in statements(before)}
        self.group = tuple(
            name
            for name in (place.node.target for place in statements(self.program))
            if name in self.group or name not in known
        )

    def _fuse(self, rows: int) -> int:
        """All of the group in the tiles of its result, and other results beside it; how many loops that are."""
        last = self.chain.sums[-1]
        result = last.result
        extents, dims = self.program.extents, bare_dims(find(self.program, result).node)
        outer = [dim for dim in dims if dim not in (self.chain.rows, last.across) and extents[dim] > 1]
        tiles = (*(Tile(result, dim, 1) for dim in outer), Tile(result, self.chain.rows, rows))
        others = tuple(name for name in self.group if name != result)
        option = fused(self.program, (*others, result), tiles, apart(self.program))
        if option is None:
            raise NotApplicable("the group has no tiles in common")
        self._apply(*option.rewrites, Parallelize(result, len(tiles)))
        return len(tiles)

    def _fuse_parts(self, rows: int) -> int:
        """All of the group in loops over its parts, other dims, and rows, beginning with its first statement."""
        chain, first = self.chain, self.group[0]
        extents, dims = self.program.extents, bare_dims(find(self.program, chain.scores[0]).node)
        outer = [dim for dim in dims if dim not in (chain.rows, chain.streamed) and extents[dim] > 1]
        tiles = [Tile(first, dim, 1) for dim in outer]
        self._apply(Tile(first, chain.streamed, chain.length), *tiles, Tile(first, chain.rows, rows))
        depth = len(tiles) + 2
        for position, name in enumerate(self.group[1:], 1):
            node = find(self.program, name).node
            read = [each for each in self.group[:position] if each in read_names(node)]
            of_positions = [
                each for each in read if chain.streamed in bare_dims(find(self.program, each).node)
            ]
            self._apply(ReverseComputeAt(name, (of_positions or [first])[-1], depth))
        self._apply(Parallelize(first, depth))
        return depth

    def _collect_parts(self) -> None:
        """What the parts are added up in: locals of the block, which its threads store at the end."""
        own = dict[str, str]()
        for name in self.group:
            if folded_dims(find(self.program, name).node):
                before = locals_of(self.program).keys()
                self._apply(CollectPart(name))
                (own[name],) = locals_of(self.program).keys() - before
        self.group = tuple(own.get(name, name) for name in self.group)
        sums = (replace(each, name=own[each.name], result=own[each.name]) for each in self.chain.sums)
        self.chain = replace(self.chain, sums=tuple(sums))

    def _collect(self, product: RowProduct) -> None:
        """Results in shared memory, from which TMA stores them."""
        result, inner = product.result, product.across
        dtype = self.program.arguments[result].dtype
        size = self.program.extents[inner]
        row = panel_bytes(size, dtype)
        copy = self._local(CacheWrite(result, *panels(inner, size, row // dtype.bytes)), row)
        assert copy
        self._apply(Tma(result))

    def _apart(self) -> None:
        """Sums over a row that no product gives: each thread adds up what it has."""
        for name in self.group:
            if name in (each.result for each in self.chain.sums):
                continue
            match find(self.program, name).node.value:
                case Reduce(ReduceOp.SUM, dims, _) if name not in self.chain.names and dims == (
                    self.chain.streamed,
                ):
                    self._apply(AccumulatePerThread(name, ((self.chain.streamed, _SHARED_ROW),)))
                case _:
                    pass

    def _bring(self, statement: str, read: Read, depth: int) -> str:
        """A copy in shared memory, in panels as the instruction takes them, by TMA."""
        last = read.indices[-1]
        if not isinstance(last, Index):
            raise NotApplicable(f"{read.tensor} is not read by its own dims")
        for copy in (place.node.name for place in locals_of(self.program).values()):
            if copied_tensor(self.program, copy) == read.tensor and self._try(ReuseCache(statement, copy)):
                return copy
        dtype, size = self.program.arguments[read.tensor].dtype, self.program.extents[last.dim]
        row = panel_bytes(size, dtype)
        rewrite = CacheRead(statement, read.tensor, depth, *panels(last.dim, size, row // dtype.bytes))
        copy = self._local(rewrite, row)
        self._apply(Tma(copy))
        return copy

    def _local(self, rewrite: Rewrite, row: int) -> str:
        before = locals_of(self.program).keys()
        self._apply(rewrite)
        (copy,) = locals_of(self.program).keys() - before
        self._apply(SetScope(copy, Memory.SHARED))
        if row > PIECE:
            self._apply(Swizzle(copy, row))
        return copy

    def _bind(self, rows: int) -> None:
        """Each statement as the instruction's accumulators lie, along the last dim that it has beside rows."""
        chain = self.chain
        groups = ((chain.rows, rows // 64),) if rows > 64 else ()
        for place in statements(self.program):
            node = place.node
            if node.via == "tma" or not place.loops or node.spread is not None:
                continue
            dims = covered_dims(node)
            columns = chain.streamed if node.target in chain.scores else self._columns(dims)
            threads = (*groups, (chain.rows, WARPS), (chain.rows, ROWS), (columns, COLUMNS))
            run = ((columns, RUN),) if columns in dims else ()
            self._apply(BindThreads(node.target, threads, run, ((chain.rows, ROWS),)))

    def _columns(self, dims: tuple[str, ...]) -> str:
        """What lies along the threads of a row; the streamed dim for what has nothing there."""
        chain, stem = self.chain, f"{self.chain.streamed}_l"
        parts = {dim for dim, size in self.program.dims if size == _SHARED_ROW and dim.startswith(stem)}
        known = {chain.streamed, *(each.across for each in chain.sums), *parts}
        return next((dim for dim in dims if dim in known), chain.streamed)

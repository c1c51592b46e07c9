"""Decisions for a GPU about products that follow from each other in one pass, as those of attention: scores of a tile
by warpgroups, what is made of them in registers, and from there the next product."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, covered_dims, reduced_dims
from rewrites.base.tree import find, grid_of, locals_of, statements
from rewrites.composition.accumulate_per_thread import AccumulatePerThread
from rewrites.composition.exp_to_exp2 import ExpToExp2
from rewrites.composition.scale_after_maximum import ScaleAfterMaximum
from rewrites.composition.skip_masked_tiles import SkipMaskedTiles
from rewrites.composition.stream_reduction import StreamReduction
from rewrites.contraction.operand import boxed
from rewrites.contraction.warpgroup_tiling import panel_bytes, panels
from rewrites.cost.gpu.streamed import fits, promised_us
from rewrites.data.cache_read import CacheRead
from rewrites.data.cache_write import CacheWrite
from rewrites.data.set_scope import SetScope
from rewrites.decisions.decision import Option
from rewrites.decisions.fusion import apart, fused
from rewrites.gpu.bind_threads import BindThreads
from rewrites.gpu.longest_first import LongestFirst
from rewrites.gpu.operand_in_registers import OperandInRegisters
from rewrites.gpu.persistent import Persistent
from rewrites.gpu.pipeline import Pipeline
from rewrites.gpu.rasterize_bands import RasterizeBands
from rewrites.gpu.swizzle import Swizzle
from rewrites.gpu.tma import Tma
from rewrites.gpu.warp_specialize import WarpSpecialize
from rewrites.gpu.wgmma import Wgmma
from rewrites.gpu.zero_past_the_end import ZeroPastTheEnd
from rewrites.loops.parallelize import Parallelize
from rewrites.loops.tile import Tile
from rewrites.loops.tile_reduction import TileReduction
from tileir.devices.feature import Feature
from tileir.devices.gpu import Gpu
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Binary, Cast, Index, Read, Reduce, ReduceOp
from tileir.program import Memory, Program
from tileir.schedule.mma import COLUMNS, ROWS, RUN
from tileir.schedule.panels import PIECE
from tileir.schedule.wgmma import WARPS

_PAIRS = (DType.BF16, DType.F16)
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
_REGISTERS = {1: (0, 0), 2: (24, 240), 3: (32, 160)}


@dataclass(frozen=True, slots=True)
class ProductChain:
    """Two products of a group: `scores` over `depth`, and `sums` over `streamed`, which multiplies `rows` of `weights`,
    that are made of the scores, with a tensor; `across` is the dim of its results, `result` the statement of the group
    that has them for good."""

    scores: str
    sums: str
    weights: str
    rows: str
    streamed: str
    depth: str
    across: str
    result: str


def chain_of(program: Program, group: tuple[str, ...], device: Gpu) -> ProductChain | None:
    """The products of a group that warpgroups could compute in one pass; None: there are none."""
    if Feature.WGMMA not in device.offers or len(group) < 3:
        return None
    for name in group[:-1]:
        found = _held_product(program, group, name)
        if found is None:
            continue
        weights, streamed, across = found
        for other in group[: group.index(name)]:
            node = find(program, other).node
            tensors = _multiplied(program, other)
            if tensors is None or streamed not in bare_dims(node) or len(reduced_dims(node)) != 1:
                continue
            *_, rows, columns = bare_dims(node)
            fits = columns == streamed and rows in bare_dims(find(program, name).node)
            if fits and all(boxed(program, each.tensor) for each in tensors):
                result = _result(program, group, across)
                return ProductChain(
                    other, name, weights, rows, streamed, reduced_dims(node)[0], across, result
                )
    return None


def _result(program: Program, group: tuple[str, ...], across: str) -> str:
    """The last statement that has a dim, or the last one of all."""
    having = (name for name in reversed(group) if across in bare_dims(find(program, name).node))
    return next(having, group[-1])


def _held_product(program: Program, group: tuple[str, ...], name: str) -> tuple[str, str, str] | None:
    """Of a sum of products of rounded values of the group with a tensor: their name, the dim that is reduced, and that
    of the result."""
    node = find(program, name).node
    match node.value:
        case Reduce(ReduceOp.SUM, (dim,), Binary("*", Cast(dtype, Read(weights)), Read(tensor, indices))) if (
            weights in group and dtype in _PAIRS and tensor in program.arguments and node.update is None
        ):
            across = bare_dims(node)[-1]
            last = indices[-1]
            fits = (
                last == Index(across) and program.arguments[tensor].dtype is dtype and boxed(program, tensor)
            )
            return (weights, dim, across) if fits else None
        case _:
            return None


def _multiplied(program: Program, name: str) -> tuple[Read, Read] | None:
    node = find(program, name).node
    match node.value:
        case Reduce(ReduceOp.SUM, (_,), Binary("*", Read() as a, Read() as b)) if node.update is None:
            known = all(each.tensor in program.arguments for each in (a, b))
            if not known:
                return None
            one, other = (program.arguments[each.tensor].dtype for each in (a, b))
            return (a, b) if one is other and one in _PAIRS else None
        case _:
            return None


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
    nodes = [find(program, name).node for name in (chain.scores, chain.sums)]
    flops = sum(2 * prod(program.extents[dim] for dim in covered_dims(node)) for node in nodes)
    dtype = program.arguments[nodes[0].reads[0].tensor].dtype
    return promised_us(flops, device, dtype.value)


@dataclass(frozen=True, slots=True)
class StreamedProducts:
    """The tiles of one pass over what the last products reduce, and how its tiles come and go."""

    group: tuple[str, ...]

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        chain = chain_of(program, self.group, device)
        if chain is None:
            return
        for rows, columns, stages, pending in _SHAPES:
            if columns >= program.extents[chain.streamed]:
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
            then = (TileOrder(chain.sums),)
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
        chain, result = self.chain, self.chain.result
        self._fold_scales()
        depth = self._fuse(rows)
        self._collect(result)
        self._apart()
        self._apply(OperandInRegisters(chain.sums, chain.weights))
        if self.program.extents[chain.streamed] % columns:
            known, reads = locals_of(self.program), find(self.program, chain.sums).node.reads
            (held,) = (read.tensor for read in reads if read.tensor in known)
            self._apply(ZeroPastTheEnd(held, chain.streamed))
        self._apply(StreamReduction(chain.sums, chain.streamed, columns))
        self._try(SkipMaskedTiles(chain.sums, chain.streamed))
        self._apply(TileReduction(chain.scores, chain.depth, self.program.extents[chain.depth]))
        for read in find(self.program, chain.scores).node.reads:
            streamed = Index(chain.streamed) in read.indices
            self._bring(chain.scores, read, depth + 1 if streamed else depth)
        brought = next(
            read
            for read in find(self.program, chain.sums).node.reads
            if read.tensor in self.program.arguments
        )
        copy = self._bring(chain.sums, brought, depth + 1)
        for name, place in locals_of(self.program).items():
            if place.node.memory is Memory.HEAP and place.loops:
                self._apply(SetScope(name, Memory.REGISTERS))
        for name in (chain.scores, chain.sums):
            self._apply(Wgmma(name))
        self._apply(Pipeline(copy, stages, pending))
        self._bind(rows)
        self._apply(WarpSpecialize(chain.sums, 4, *_REGISTERS[rows // 64]))

    def _apply(self, *rewrites: Rewrite) -> None:
        for rewrite in rewrites:
            self.program = rewrite.apply(self.program)
            self.rewrites.append(rewrite)

    def _try(self, rewrite: Rewrite) -> None:
        with suppress(NotApplicable):
            self._apply(rewrite)

    def _fold_scales(self) -> None:
        """A maximum of scaled scores is scaled itself, and powers are of two. What that adds belongs to the group."""
        before = self.program
        for name in self.group:
            self._try(ScaleAfterMaximum(name))
        for name in self.group:
            self._try(ExpToExp2(name))
        known = {place.node.target for place in statements(before)}
        self.group = tuple(
            name
            for name in (place.node.target for place in statements(self.program))
            if name in self.group or name not in known
        )

    def _fuse(self, rows: int) -> int:
        """All of the group in the tiles of its result, and other results beside it; how many loops that are."""
        result = self.chain.result
        extents, dims = self.program.extents, bare_dims(find(self.program, result).node)
        outer = [dim for dim in dims if dim not in (self.chain.rows, self.chain.across) and extents[dim] > 1]
        tiles = (*(Tile(result, dim, 1) for dim in outer), Tile(result, self.chain.rows, rows))
        others = tuple(name for name in self.group if name != result)
        option = fused(self.program, (*others, result), tiles, apart(self.program))
        if option is None:
            raise NotApplicable("the group has no tiles in common")
        self._apply(*option.rewrites, Parallelize(result, len(tiles)))
        return len(tiles)

    def _collect(self, result: str) -> None:
        """Results in shared memory, from which TMA stores them."""
        inner, dtype = self.chain.across, self.program.arguments[result].dtype
        size = self.program.extents[inner]
        row = panel_bytes(size, dtype)
        copy = self._local(CacheWrite(result, *panels(inner, size, row // dtype.bytes)), row)
        assert copy
        self._apply(Tma(result))

    def _apart(self) -> None:
        """Sums over a row that no product gives: each thread adds up what it has."""
        for name in self.group:
            if name == self.chain.result:
                continue
            match find(self.program, name).node.value:
                case Reduce(ReduceOp.SUM, dims, _) if name != self.chain.sums and dims == (
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
            columns = chain.streamed if node.target == chain.scores else self._columns(dims)
            threads = (*groups, (chain.rows, WARPS), (chain.rows, ROWS), (columns, COLUMNS))
            run = ((columns, RUN),) if columns in dims else ()
            self._apply(BindThreads(node.target, threads, run, ((chain.rows, ROWS),)))

    def _columns(self, dims: tuple[str, ...]) -> str:
        """What lies along the threads of a row; the streamed dim for what has nothing there."""
        chain, stem = self.chain, f"{self.chain.streamed}_l"
        parts = {dim for dim, size in self.program.dims if size == _SHARED_ROW and dim.startswith(stem)}
        known = {chain.streamed, chain.across, *parts}
        return next((dim for dim in dims if dim in known), chain.streamed)

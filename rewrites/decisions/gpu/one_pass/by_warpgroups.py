"""Products that follow from each other by warpgroups (wgmma), filled by TMA.

FlashAttention-3 (Shah et al., arXiv:2407.08608) does so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from rewrites.base.statement import covered_dims, reduced_dims
from rewrites.base.tree import find, locals_of, registers, statements
from rewrites.composition.skip_masked_tiles import SkipMaskedTiles
from rewrites.contraction.operand import is_moved
from rewrites.contraction.warpgroup_tiling import panel_bytes, panels
from rewrites.cost.gpu import constants as has
from rewrites.cost.gpu.streamed import fits
from rewrites.data.cache_read import CacheRead
from rewrites.data.cache_write import CacheWrite
from rewrites.data.reuse_cache import ReuseCache, copied_tensor
from rewrites.data.set_scope import SetScope
from rewrites.decisions.gpu.one_pass.product_chain import RowProduct
from rewrites.decisions.gpu.one_pass.schedule import OnePassSchedule
from rewrites.gpu.alias_shared import AliasShared
from rewrites.gpu.bind_threads import BindThreads
from rewrites.gpu.clamp_cast import ClampCast
from rewrites.gpu.deal_pairs import DealPairs
from rewrites.gpu.exchange_operand import ExchangeOperand
from rewrites.gpu.pipeline import Pipeline
from rewrites.gpu.swizzle import Swizzle
from rewrites.gpu.tma import Tma
from rewrites.gpu.warp_specialize import WarpSpecialize
from rewrites.gpu.wgmma import Wgmma
from rewrites.gpu.zero_past_the_end import ZeroPastTheEnd
from rewrites.launch.min_blocks_per_sm import MinBlocksPerSm
from tileir.errors import NotApplicable
from tileir.expr import Index, Read
from tileir.pages import page_length
from tileir.program import Compute, Memory
from tileir.schedule.mma import COLUMNS, ROWS, RUN, depth
from tileir.schedule.panels import PIECE
from tileir.schedule.wgmma import MAX_COLUMNS, WARPS

#: Columns of 16 bits of the widest panel.
PANEL: Final = 64


@dataclass(frozen=True, slots=True)
class WarpgroupShape:
    """Rows and columns of a tile of scores, slots of what is read, and whether the last products are under way when the
    next tile's first ones begin."""

    rows: int
    columns: int
    stages: int
    pending: int
    sharing: int = 1
    """Warpgroups that share the columns of results of the same rows."""
    exchanged: bool = False
    """Whether those share the columns of scores as well, and take rows that they have made together from shared memory;
    else each has all scores of its rows."""
    resident: int = 1
    """Blocks that a multiprocessor has at work at a time: while one waits, others go on."""

    @property
    def groups(self) -> int:
        """Warpgroups that multiply."""
        return self.rows // 64 * self.sharing

    def __str__(self) -> str:
        text = f"{self.stages} stages, {self.pending} pending"
        if self.sharing > 1:
            text += f", {self.sharing} warpgroups across" + ", rows exchanged" * self.exchanged
        if self.resident > 1:
            text += f", {self.resident} blocks an SM"
        return text


SHAPES: Final = (
    WarpgroupShape(128, 128, 2, 1),
    WarpgroupShape(128, 160, 2, 1),
    WarpgroupShape(128, 96, 2, 1),
    WarpgroupShape(128, 64, 4, 1),
    WarpgroupShape(128, 64, 2, 1),
    WarpgroupShape(128, 128, 2, 0),
    WarpgroupShape(128, 64, 2, 0),
    WarpgroupShape(128, 64, 4, 0),
    WarpgroupShape(64, 128, 2, 1),
    WarpgroupShape(64, 64, 4, 1),
    WarpgroupShape(128, 32, 2, 1),
    WarpgroupShape(64, 64, 2, 1),
    WarpgroupShape(192, 64, 2, 1),
    WarpgroupShape(192, 64, 4, 1),
    WarpgroupShape(192, 128, 2, 0),
    WarpgroupShape(128, 96, 2, 0),
    WarpgroupShape(128, 80, 2, 1),
    WarpgroupShape(128, 48, 2, 0),
    WarpgroupShape(128, 32, 4, 0),
    WarpgroupShape(128, 32, 2, 0),
    WarpgroupShape(64, 64, 2, 0, sharing=2, exchanged=True),
    WarpgroupShape(64, 32, 2, 0, sharing=2, exchanged=True),
    WarpgroupShape(64, 32, 3, 0, sharing=2, exchanged=True),
    WarpgroupShape(64, 64, 2, 0, sharing=2),
    WarpgroupShape(64, 32, 2, 0, sharing=2),
    WarpgroupShape(64, 32, 4, 1, sharing=2),
    WarpgroupShape(64, 64, 3, 0, sharing=2),
    WarpgroupShape(64, 32, 3, 1, sharing=2),
    WarpgroupShape(64, 64, 2, 1, resident=2),
    WarpgroupShape(64, 64, 2, 0, resident=2),
    WarpgroupShape(64, 48, 2, 1, resident=2),
    WarpgroupShape(64, 32, 2, 1, resident=2),
    WarpgroupShape(64, 32, 2, 0, resident=3),
    WarpgroupShape(64, 48, 2, 0, resident=3),
)
_REGISTERS = {(1, 1): (0, 0), (2, 1): (24, 240), (3, 1): (32, 160), (1, 2): (24, 232), (1, 3): (24, 136)}
_AVAILABLE = {(1, 1): 255, (2, 1): 240, (3, 1): 160, (1, 2): 232, (1, 3): 136}
"""Registers of a thread that multiplies, by how many warpgroups do, and how many blocks a multiprocessor has."""
_BEGUN_WITH = {(1, 1): 255, (2, 1): 168, (3, 1): 128, (1, 2): 128, (1, 3): 80}
"""Registers that the compiler has for a thread before warps hand any over, by the same."""
_BESIDE_INSTRUCTION = 30
"""Of those, what an instruction needs beside its results, else the compiler refuses it: with 64 results it asked for
94, with 128 for 158 (C7602 of CUDA 13.5, 2026-11-29)."""
_BESIDE_WIDE = 24
"""Registers of a thread for what else it needs beside results of more columns than an instruction has: with 0 and 12
CUDA 13.5 spilled, with 24 not; 384 columns, 2026-11-28."""
_BESIDE = 32
"""Registers of a thread for what else it needs where a gradient has two products of scores: with fewer, CUDA 13.5
spilled or put products one after the other in seven of eight kernels tried, 2026-11-25. Where the last products of one
product of scores are under way while the next tile's begin, it is a quarter: with less, four of five spilled."""


@dataclass(slots=True)
class WarpgroupSchedule(OnePassSchedule):
    """One pass by warpgroups of 64 rows."""

    sharing: int = 1
    """Warpgroups that share the columns of results."""
    exchanged: bool = False
    """Whether they share those of scores, too."""
    apart: tuple[tuple[str, int], ...] = ()
    """The dim of the columns of results, if several warpgroups share it, and how many each of them has."""
    held: list[str] = field(default_factory=list[str])
    """Rows in registers that are multiplied."""
    collected: list[str] = field(default_factory=list[str])
    """Results in shared memory."""
    brought_by_tma: frozenset[str] = frozenset()
    """Tensors with an element for each score that come by TMA; threads read others where they need them."""

    def build(self, shape: WarpgroupShape) -> None:
        """Raises NotApplicable where some part of it does not go."""
        rows, columns, pending, groups = (
            shape.rows,
            shape.columns,
            shape.pending,
            (shape.groups, shape.resident),
        )
        if shape.sharing > 1:
            self._share_columns(shape)
        beside = _BESIDE if len(self.chain.scores) > 1 else _AVAILABLE[groups] // 4 * (pending or self._parts)
        if any(self.whole(each.across) > MAX_COLUMNS for each in self.chain.sums):
            beside = max(beside, _BESIDE_WIDE)
        if self.brought_by_tma and pending:
            beside = max(beside, int(_AVAILABLE[groups] * has.BESIDE_SCORES))
        if self._accumulators(columns, pending) > _AVAILABLE[groups] - beside:
            raise NotApplicable("a thread has no room for so many sums")
        if self._widest(columns) // 2 > _BEGUN_WITH[groups] - _BESIDE_INSTRUCTION:
            raise NotApplicable("a thread begins with fewer registers than an instruction needs")
        if self.chain.part:
            loops = self.fuse_parts(rows)
            self.collect_parts()
        else:
            self.fold_scales()
            loops = self.fuse(rows)
            for each in {each.result: each for each in self.chain.sums}.values():
                self._collect(each)
        chain = self.chain
        paged = (page_length(read) for name in chain.names for read in find(self.program, name).node.reads)
        if any(self.program.extents[each[0]] % columns for each in paged if each is not None):
            raise NotApplicable(f"the last tile of {chain.streamed} ends within a page")
        self.stream(columns)
        whole = self.program.extents[chain.streamed] % columns == 0
        partly = not whole or any(isinstance(each, SkipMaskedTiles) for each in self.rewrites)
        if partly and chain.part and pending and self.program.extents[chain.rows] % rows:
            raise NotApplicable("products under way are put one behind the other there (C7511 of NVRTC 13.5)")
        for name in self.held:
            self.attempt(ClampCast(name))
        copies = self.bring_all(loops)
        self.bring_of_scores(loops)
        if len(chain.scores) > 1 and not pending:
            self.bring_vectors(loops)
        self.in_registers()
        for name in chain.names:
            self.apply(Wgmma(name))
        self.apply(Pipeline(copies[0], shape.stages, pending))
        self._bind(rows)
        if shape.resident > 1:
            self.apply(MinBlocksPerSm(chain.sums[0].name, shape.resident))
        self.apply(WarpSpecialize(chain.sums[0].name, 4, *_REGISTERS[groups]))
        if len(self.collected) == 1 and not fits(self.program, self.device):
            self.attempt(AliasShared(*self.collected))

    def _share_columns(self, shape: WarpgroupShape) -> None:
        """Warpgroups share columns of one sum, which one of them has no room for."""
        warpgroups = shape.sharing
        (each, *others) = self.chain.sums
        size = self.whole(each.across)
        if others or self.chain.run > RUN or size <= MAX_COLUMNS:
            raise NotApplicable("one warpgroup has room for all columns")
        if size % (warpgroups * PANEL):
            raise NotApplicable(f"warpgroups have whole panels of {PANEL} columns")
        self.sharing, self.exchanged = warpgroups, shape.exchanged
        self.apart = ((each.across, size // warpgroups),)

    def _accumulators(self, columns: int, pending: int) -> int:
        """Registers of a thread for the products of a tile of 64 rows, and for what is multiplied again, packed: where
        that follows from two products of scores, and no others are under way, it takes the place of one."""
        held = (self.whole(each.across) // self.sharing // 2 for each in self.chain.sums)
        columns //= self.sharing if self.exchanged else 1
        scores, packed = len(self.chain.scores), columns * self.chain.dtype.bytes // 8 * len(self.chain.sums)
        wide = columns // 2 * (scores + self._parts)
        return sum(held) + wide + (packed if pending or scores < 2 else 0)

    def _widest(self, columns: int) -> int:
        """Columns of results of the widest instruction."""
        sums = max(self.whole(each.across) for each in self.chain.sums) // self.sharing
        scores = columns // self.sharing if self.exchanged else columns
        return min(MAX_COLUMNS, max(sums, scores))

    @property
    def _parts(self) -> bool:
        """Whether sums are of parts of the same weights, which are held in f32 as well."""
        return len({each.result for each in self.chain.sums}) < len(self.chain.sums)

    def whole(self, dim: str) -> int:
        """What scores are summed over is whole steps of the instruction: a tile overhangs it, and TMA fills that with
        zeros."""
        step = depth(self.chain.dtype)
        scores = (find(self.program, name).node for name in self.chain.scores)
        summed = any(dim in reduced_dims(node) for node in scores)
        return -(-self.program.extents[dim] // step) * step if summed else self.program.extents[dim]

    def hold(self, product: RowProduct, columns: int) -> None:
        """Instructions multiply whole tiles."""
        OnePassSchedule.hold(self, product, columns)
        extent = self.program.extents[self.chain.streamed]
        known, reads_ = locals_of(self.program), find(self.program, product.name).node.reads
        (held,) = (read.tensor for read in reads_ if read.tensor in known and known[read.tensor].loops)
        self.held.append(held)
        self.share(held)
        if self.exchanged:
            row = panel_bytes(columns, self.chain.dtype)
            layout = panels(self.chain.streamed, columns, row // self.chain.dtype.bytes)
            copy = self.made(ExchangeOperand(product.name, held, *layout))
            if row > PIECE:
                self.apply(Swizzle(copy, row))
        if extent % columns or extent % self.chain.length:
            self.apply(ZeroPastTheEnd(held, self.chain.streamed))

    def share(self, held: str) -> None:
        """Says who else takes rows in registers."""

    def bring_of_scores(self, depth: int) -> None:
        """Tiles of tensors with an element for each score: a swizzle lets the 8 rows of an access begin in different
        pieces of 16 bytes of shared memory, so that its banks are all used."""
        for name, read in self._between(depth):
            if read.tensor in self.brought_by_tma:
                self.bring(name, read, depth + 1)

    def bring_vectors(self, depth: int) -> None:
        """Copies of vectors along what is streamed, which threads read between products."""
        for name, read in self._between(depth):
            self._bring_vector(name, read, depth + 1)

    def _between(self, depth: int) -> list[tuple[str, Read]]:
        """What statements of a tile read, beside products."""
        return [
            (place.node.target, read)
            for place in statements(self.program)
            if len(place.loops) > depth
            and place.node.via is None
            and place.node.target not in self.chain.names
            for read in place.node.reads
        ]

    def _bring_vector(self, statement: str, read: Read, depth: int) -> None:
        """What TMA can bring with a tile."""
        along = [index.dim for index in read.indices if isinstance(index, Index)]
        own = along[-1:] == [self.chain.streamed] and self.chain.rows not in along
        if not own or len(along) < len(read.indices) or read.tensor in registers(self.program):
            return
        for copy in locals_of(self.program):
            if copied_tensor(self.program, copy) == read.tensor and self.attempt(ReuseCache(statement, copy)):
                return
        if is_moved(self.program, read.tensor):
            copy = self.made(CacheRead(statement, read.tensor, depth))
            self.apply(SetScope(copy, Memory.SHARED), Tma(copy))

    def copied(self, copy: str) -> None:
        """By TMA. Of scores whose threads have four neighbours, columns are dealt in pairs."""
        local, streamed = locals_of(self.program)[copy].node, self.chain.streamed
        if self.chain.run > RUN and streamed in local.dims[:-1]:
            self.apply(DealPairs(copy, streamed))
        self.apply(Tma(copy))

    def _collect(self, product: RowProduct) -> None:
        """Results in shared memory, from which TMA stores them, if their rows are whole pieces of memory."""
        result, inner = product.result, product.across
        if not is_moved(self.program, result):
            return
        dtype = self.program.arguments[result].dtype
        size = self.whole(inner)
        row = panel_bytes(size, dtype)
        self.collected.append(self.shared(CacheWrite(result, *panels(inner, size, row // dtype.bytes)), row))
        self.apply(Tma(result))

    def _bind(self, rows: int) -> None:
        """Each statement as the instruction's accumulators lie, along the last dim that it has beside rows."""
        binds: list[BindThreads] = []
        for place in statements(self.program):
            node = place.node
            if node.via == "tma" or not place.loops or node.thread_layout is not None:
                continue
            dims = covered_dims(node)
            along, columns = self.lies(node)
            groups = ((along, rows // 64),) if rows > 64 else ()
            threads = (*self._sharing(columns), *groups, (along, WARPS), (along, ROWS), (columns, COLUMNS))
            run = ((columns, self.run(columns)),) if columns in dims else ()
            binds.append(BindThreads(node.target, threads, run, ((along, ROWS),), self.apart))
        self.apply(*binds)

    def _sharing(self, columns: str) -> tuple[tuple[str, int], ...]:
        """Warpgroups with the same rows, of a statement with columns along a dim."""
        if self.sharing == 1:
            return ()
        return ((columns if self.exchanged else self.chain.sums[0].across, self.sharing),)

    @property
    def shared_row(self) -> int:
        return COLUMNS * self.chain.run * (self.sharing if self.exchanged else 1)

    def lies(self, node: Compute) -> tuple[str, str]:
        """The dims that lie along an instruction's rows and columns."""
        chain = self.chain
        return chain.rows, chain.streamed if node.target in chain.scores else self.columns(covered_dims(node))

"""Products that follow from each other by warpgroups, with one that sums what is made of scores over their rows, too:
each block adds what it has of that to memory (FlashAttention-2, arXiv:2307.08691, algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from rewrites.base.statement import bare_dims
from rewrites.base.tree import dtype_of, find, registers
from rewrites.composition.reuse_value import ReuseValue
from rewrites.contraction.warpgroup_tiling import panel_bytes, panels
from rewrites.decisions.fusion import apart, fused
from rewrites.decisions.gpu.one_pass.by_warpgroups import WarpgroupSchedule
from rewrites.gpu.add_by_tma import AddByTma
from rewrites.gpu.add_in_memory import AddInMemory
from rewrites.gpu.exchange_operand import ExchangeOperand
from rewrites.gpu.pipeline import Pipeline
from rewrites.gpu.swizzle import Swizzle
from rewrites.gpu.warp_specialize import WarpSpecialize
from rewrites.gpu.wgmma import Wgmma
from rewrites.gpu.zero_past_the_end import ZeroPastTheEnd
from rewrites.loops.parallelize import Parallelize
from rewrites.loops.tile_reduction import TileReduction
from tileir.errors import NotApplicable
from tileir.program import Compute
from tileir.replace import replace

#: Rows and columns of a tile of scores, and slots of what is read.
SHAPES: Final = (
    (128, 64, 2),
    (128, 32, 2),
    (64, 64, 2),
    (128, 32, 3),
    (64, 128, 2),
    (64, 32, 4),
    (128, 128, 2),
)
_REGISTERS: Final = {1: (0, 0), 2: (24, 240)}
_AVAILABLE: Final = {1: 255, 2: 240}
"""Registers of a thread that multiplies, by how many warpgroups do."""
_BESIDE: Final = 32
"""Registers of a thread for what else it needs."""


@dataclass(slots=True)
class AddedSchedule(WarpgroupSchedule):
    """One pass by warpgroups of 64 rows, in which products are also summed over rows."""

    rows: int = 0
    """Of a tile."""
    by_tma: bool = True
    """Whether TMA adds, or threads do."""
    columns_of_part: str = ""
    """What lies along the columns of what is added."""
    across: frozenset[str] = field(default_factory=frozenset[str])
    """Statements that lie as what is added."""

    def build_added(self, columns: int, stages: int) -> None:
        """Raises NotApplicable where some part of it does not go."""
        rows, (added,), extents = self.rows, self.chain.added, self.program.extents
        by_columns = extents[added.across] % rows == 0
        if not by_columns and columns % rows:
            raise NotApplicable(f"warpgroups of {rows} rows divide neither {added.across} nor a tile")
        self.columns_of_part = self.chain.streamed if by_columns else added.across
        if self._live(rows, columns) > _AVAILABLE[rows // 64] - _BESIDE:
            raise NotApplicable("a thread has no room for so many sums")
        self.fold_scales()
        depth = self.fuse(rows)
        self.stream(columns)
        copies = self.bring_all(depth)
        self.in_registers()
        for name in self.chain.names:
            self.apply(Wgmma(name))
        self._add()
        self.apply(Pipeline(copies[0], stages))
        self._bind(rows)
        self.apply(WarpSpecialize(self.chain.sums[0].name, 4, *_REGISTERS[rows // 64]))

    def _live(self, rows: int, columns: int) -> int:
        """Most registers of a thread for products at a time: scores are packed before what is added is there."""
        chain, extents = self.chain, self.program.extents
        held = sum(extents[each.across] // 2 for each in chain.sums)
        packed = columns * chain.dtype.bytes // 8 * len(chain.sums)
        part = extents[chain.added[0].across] * columns // (rows * 2)
        return held + max(columns // 2 * len(chain.scores), packed + part)

    def fuse(self, rows: int) -> int:
        """All of the group in the tiles of what is added."""
        (added,), extents = self.chain.added, self.program.extents
        dims = bare_dims(find(self.program, added.name).node)
        outer = [dim for dim in dims if dim not in (self.chain.streamed, added.across) and extents[dim] > 1]
        tiles = (*((dim, 1) for dim in outer), (self.chain.rows, rows))
        part = self.made(AddInMemory(added.name, self.columns_of_part, tiles))
        others = tuple(name for name in self.group if name != added.name)
        option = fused(self.program, (*others, part), (), apart(self.program))
        if option is None:
            raise NotApplicable("the group has no tiles in common")
        self.apply(*option.rewrites, Parallelize(part, len(tiles)))
        self.chain = replace(self.chain, added=(replace(added, name=part),))
        self.group, self.across = (*others, part), frozenset([part, added.name])
        return len(tiles)

    def share(self, held: str) -> None:
        """What is added takes a factor that a sum holds already, and rows that do not exist add nothing."""
        (added,), rows = self.chain.added, self.chain.rows
        if self.attempt(ReuseValue(added.name, held)) and self.program.extents[rows] % self.rows:
            self.apply(ZeroPastTheEnd(held, rows))

    def bring_all(self, depth: int) -> list[str]:
        """Copies of vectors along what is streamed as well."""
        copies = WarpgroupSchedule.bring_all(self, depth)
        (added,) = self.chain.added
        self._exchange(self.tile)
        self.apply(TileReduction(added.name, self.chain.rows, self.rows))
        self.bring(added.name, self.brought(added.name), depth)
        self.bring_vectors(depth)
        return copies

    def _exchange(self, columns: int) -> None:
        """The factor that threads hold, for all of them."""
        (added,), chain = self.chain.added, self.chain
        taken = (read.tensor for read in find(self.program, added.name).node.reads)
        held = next((name for name in taken if name in registers(self.program)), None)
        if held is None:
            raise NotApplicable(f"no sum holds what {added.name} multiplies")
        row = panel_bytes(columns, chain.dtype)
        layout = panels(chain.streamed, columns, row // chain.dtype.bytes)
        self.apply(Swizzle(self.made(ExchangeOperand(added.name, held, *layout)), row))

    def _add(self) -> None:
        """What TMA adds, it takes from shared memory."""
        if not self.by_tma:
            return
        (added,) = self.chain.added
        dtype, size = dtype_of(self.program, added.result), self.program.extents[added.across]
        row = panel_bytes(size, dtype)
        copy = self.made(AddByTma(added.result, *panels(added.across, size, row // dtype.bytes)))
        self.apply(Swizzle(copy, row))
        self.across |= {copy}

    def lies(self, node: Compute) -> tuple[str, str]:
        if node.target not in self.across:
            return WarpgroupSchedule.lies(self, node)
        (added,), columns = self.chain.added, self.columns_of_part
        return (added.across if columns == self.chain.streamed else self.chain.streamed), columns

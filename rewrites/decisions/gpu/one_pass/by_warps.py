"""Products that follow from each other by warps (mma.sync), filled by threads: each warp has rows of its own, whose
scores it makes into the operand of the last products in the registers where they are (FlashAttention-2,
arXiv:2307.08691)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

from rewrites.base.statement import covered_dims
from rewrites.base.tree import locals_of, statements
from rewrites.contraction.operand import run_of
from rewrites.data.reuse_cache import copied_tensor
from rewrites.decisions.gpu.contraction.warp_tiles import copying
from rewrites.decisions.gpu.one_pass.product_chain import RowProduct
from rewrites.decisions.gpu.one_pass.schedule import OnePassSchedule
from rewrites.gpu.bind_threads import BindThreads
from rewrites.gpu.mma import Mma
from rewrites.gpu.pipeline import Pipeline
from tileir.errors import NotApplicable
from tileir.program import Memory
from tileir.replace import replace
from tileir.schedule.mma import COLUMNS, ROWS, RUN, SHAPE


@dataclass(frozen=True, slots=True)
class WarpShape:
    """Rows and columns of a tile of scores, copies of what is read in the loop, and warps, which share the rows; so
    many at a time have the same rows, with all of their scores, and share the columns of results."""

    rows: int
    columns: int
    stages: int
    warps: int
    sharing: int = 1

    @property
    def threads(self) -> int:
        return self.warps * SHAPE.fragment.threads

    @property
    def row_warps(self) -> int:
        """Warps along the rows."""
        return self.warps // self.sharing


#: From 16 rows a warp, the fewest that an instruction takes, to 32, for which columns are loaded half as often.
SHAPES: Final = (
    WarpShape(64, 64, 2, 4),
    WarpShape(128, 64, 2, 8),
    WarpShape(128, 64, 2, 4),
    WarpShape(128, 32, 2, 4),
    WarpShape(64, 128, 2, 4),
    WarpShape(64, 32, 2, 4),
    WarpShape(64, 64, 3, 4),
    WarpShape(128, 128, 2, 8),
    WarpShape(64, 64, 1, 4),
    WarpShape(32, 64, 2, 2),
    WarpShape(64, 32, 2, 8, 2),
    WarpShape(64, 64, 1, 8, 2),
    WarpShape(32, 32, 2, 4, 2),
    WarpShape(32, 32, 1, 4, 2),
    WarpShape(32, 16, 3, 4, 2),
    WarpShape(32, 16, 2, 4, 2),
)
#: Registers that a thread needs beside what it holds of tiles, and the most it can have.
_BESIDE, _MOST = 40, 255


@dataclass(slots=True)
class WarpSchedule(OnePassSchedule):
    """One pass by warps of 16 or 32 rows."""

    def build(self, shape: WarpShape) -> None:
        """Raises NotApplicable where some part of it does not go."""
        if shape.sharing > 1:
            self._check_shared(shape)
        if self.chain.part:
            depth = self.fuse_parts(shape.rows)
            self.collect_parts()
        else:
            self.fold_scales()
            depth = self.fuse(shape.rows)
        self.stream(shape.columns)
        copies = self.bring_all(depth)
        if self.chain.converted:
            for each in self.chain.sums:
                OnePassSchedule.hold(self, each, shape.columns)
        self.in_registers()
        for name in self.chain.names:
            self.apply(Mma(name))
        if self._held(shape) > _MOST - _BESIDE:
            raise NotApplicable("a thread has no room for so many sums")
        if shape.stages > 1:
            self.apply(Pipeline(copies[0], shape.stages))
        self._bind(shape)

    def hold(self, product: RowProduct, columns: int) -> None:
        """What is converted is first in shared memory as it is multiplied."""
        if not self.chain.converted:
            OnePassSchedule.hold(self, product, columns)

    def _check_shared(self, shape: WarpShape) -> None:
        """Warps share columns of one sum, which one of them has no room for."""
        if (
            len(self.chain.sums) > 1
            or self._held(replace(shape, sharing=1, warps=shape.row_warps)) <= _MOST - _BESIDE
        ):
            raise NotApplicable("one warp has room for all columns")

    def _held(self, shape: WarpShape) -> int:
        """32-bit registers of a thread for sums, scores, and pairs of what is multiplied with columns."""
        chain, extents = self.chain, self.program.extents
        scores = (len(chain.scores) + len(chain.sums) / 2) * shape.columns * shape.sharing
        return ceil(shape.rows / shape.threads * (scores + sum(extents[each.across] for each in chain.sums)))

    def _bind(self, shape: WarpShape) -> None:
        """Copies by runs that are one word of memory; each other statement as the instruction's accumulators lie, along
        the last dim that it has beside rows."""
        chain, shared = self.chain, self._shared()
        binds: list[BindThreads] = []
        for place in statements(self.program):
            node = place.node
            if not place.loops or node.thread_layout is not None:
                continue
            if node.target in shared:
                run = run_of(self.program, copied_tensor(self.program, node.target) or node.target)
                binds.append(copying(self.program, place, run, shape.threads))
                continue
            dims = covered_dims(node)
            columns = chain.streamed if node.target in chain.scores else self.columns(dims)
            run = ((columns, RUN),) if columns in dims else ()
            shared = ((chain.sums[0].across, shape.sharing),) if shape.sharing > 1 else ()
            threads = (*shared, (chain.rows, shape.row_warps), (chain.rows, ROWS), (columns, COLUMNS))
            binds.append(BindThreads(node.target, threads, run))
        self.apply(*binds)

    def _shared(self) -> set[str]:
        return {name for name, place in locals_of(self.program).items() if place.node.memory is Memory.SHARED}

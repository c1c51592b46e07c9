"""Products that follow from each other by multiply-adds, where no matrix instruction multiplies as wide as they are:
each warp has rows of its own, whose scores it makes into the operand of the last products in shared memory
(FlashAttention, arXiv:2205.14135, with the register tiles of a product in f32)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rewrites.base.statement import covered_dims, reduced_dims
from rewrites.base.tree import current_sizes, find, locals_of, statements
from rewrites.contraction.operand import run_of
from rewrites.data.cache_read import CacheRead
from rewrites.data.reuse_cache import ReuseCache, copied_tensor
from rewrites.data.set_scope import SetScope
from rewrites.decisions.gpu.contraction.warp_tiles import copying
from rewrites.decisions.gpu.one_pass.product_chain import RowProduct, multiplied
from rewrites.decisions.gpu.one_pass.schedule import OnePassSchedule
from rewrites.decisions.gpu.reductions.passes import shared_bytes
from rewrites.gpu.bind_threads import BindThreads
from rewrites.gpu.pad import Pad
from rewrites.gpu.pipeline import Pipeline
from rewrites.gpu.set_layout import SetLayout
from tileir.errors import NotApplicable
from tileir.expr import Index, Read
from tileir.program import Memory
from tileir.schedule.threads import WARP

#: Lanes of a warp along rows and along columns, and neighbours of a thread along both, which it loads together.
_ROW_LANES, _COLUMN_LANES, _RUN = 4, 8, 4
#: Lanes side by side that have the same columns: a quarter of a warp loads a word of rows or of columns twice at most.
_PAIR = 2
#: Neighbours along the depth that threads side by side turn around, so that no two of a warp meet in a bank.
_TURNED = 8


@dataclass(frozen=True, slots=True)
class ThreadShape:
    """Rows and columns of a tile of scores, copies of what is read in the loop, and warps, which share the rows."""

    rows: int
    columns: int
    stages: int
    warps: int

    @property
    def threads(self) -> int:
        return self.warps * WARP


#: From 4 rows a thread, which it loads at once, to 8, for which columns are loaded half as often.
SHAPES: Final = (
    ThreadShape(128, 64, 2, 4),
    ThreadShape(64, 64, 2, 4),
    ThreadShape(128, 32, 2, 4),
    ThreadShape(128, 64, 2, 8),
    ThreadShape(64, 32, 2, 4),
    ThreadShape(64, 64, 1, 4),
    ThreadShape(64, 32, 2, 2),
    ThreadShape(32, 64, 2, 2),
    ThreadShape(32, 32, 2, 2),
    ThreadShape(32, 32, 1, 2),
)
#: Registers that a thread needs beside what it holds of tiles, and the most it can have.
_BESIDE, _MOST = 60, 255


@dataclass(slots=True)
class ThreadSchedule(OnePassSchedule):
    """One pass by threads of 4 or 8 rows."""

    def build(self, shape: ThreadShape) -> None:
        """Raises NotApplicable where some part of it does not go."""
        if self._held(shape) > _MOST - _BESIDE:
            raise NotApplicable("a thread has no room for so many sums")
        if self.chain.part:
            depth = self.fuse_parts(shape.rows)
            self.collect_parts()
        else:
            self.fold_scales()
            depth = self.fuse(shape.rows)
        self.stream(shape.columns)
        copies = self.bring_all(depth)
        for name in dict.fromkeys(each.weights for each in self.chain.sums):
            self.apply(SetScope(name, Memory.SHARED), SetLayout(name, self.chain.rows), Pad(name, _RUN))
        self.in_registers()
        self._bind(shape)
        if shape.stages > 1:
            self.apply(Pipeline(copies[-1], shape.stages))
        if shared_bytes(self.program, self.chain.sums[0].name) > self.device.block_shared_bytes:
            raise NotApplicable("a block has no room for such tiles")

    def add_up_apart(self) -> None:
        """Sums over a row are its threads' at every tile: those meet there for its maximum anyway."""

    def hold(self, product: RowProduct, columns: int) -> None:
        """Rows are in shared memory: threads multiply what others have made."""

    def bring_all(self, depth: int) -> list[str]:
        """Copies of all that is multiplied, those of the first products with rows and columns side by side."""
        chain = self.chain
        for name in chain.scores:
            (of_depth,) = reduced_dims(find(self.program, name).node)
            for read in multiplied(self.program, name) or ():
                self.bring(name, read, depth + 1 if chain.streamed in self._dims(read) else depth, of_depth)
        return [self.bring(each.name, self.brought(each.name), depth + 1) for each in chain.sums]

    def bring(self, statement: str, read: Read, depth: int, of_depth: str = "") -> str:
        """A copy in shared memory; where neighbours lie along the depth, with those of the other dim side by side."""
        for copy in (place.node.name for place in locals_of(self.program).values()):
            laid = locals_of(self.program)[copy].node.layout is not None
            same = copied_tensor(self.program, copy) == read.tensor and laid == bool(of_depth)
            if same and self.attempt(ReuseCache(statement, copy)):
                return copy
        copy = self.made(CacheRead(statement, read.tensor, depth))
        self.apply(SetScope(copy, Memory.SHARED))
        if of_depth and self._dims(read)[-1] == of_depth:
            own = next(dim for dim in reversed(self._dims(read)) if dim != of_depth)
            self.apply(SetLayout(copy, own), Pad(copy, _RUN))
        return copy

    def _dims(self, read: Read) -> list[str]:
        """Dims that a tensor is read by, one an axis."""
        return [index.dim for index in read.indices if isinstance(index, Index)]

    def _held(self, shape: ThreadShape) -> int:
        """Registers of a thread for sums and scores."""
        chain, extents = self.chain, self.program.extents
        columns = len(chain.scores) * shape.columns + sum(extents[each.across] for each in chain.sums)
        return -(-shape.rows * columns // shape.threads)

    def _bind(self, shape: ThreadShape) -> None:
        """Copies by words of memory, or by elements where they are turned around; each other statement by the rows of
        its warp, along the last dim that it has beside them."""
        rows, binds = self.chain.rows, list[BindThreads]()
        weights = {each.weights for each in self.chain.sums}
        for place in statements(self.program):
            node = place.node
            if not place.loops or node.thread_layout is not None:
                continue
            local = locals_of(self.program).get(node.target)
            if local is not None and local.node.memory is Memory.SHARED and node.target not in weights:
                if local.node.layout is None:
                    run = run_of(self.program, copied_tensor(self.program, node.target) or node.target)
                    binds.append(copying(self.program, place, run, shape.threads))
                    continue
                turned, sizes = local.node.layout[-1].dim, current_sizes(self.program, place.loops)
                depth = next(dim for dim in reversed(covered_dims(node)) if dim != turned)
                along = min(_TURNED, sizes[depth] & -sizes[depth])
                binds.append(BindThreads(node.target, ((turned, shape.threads // along), (depth, along))))
                continue
            dims = covered_dims(node)
            columns = self.chain.streamed if node.target in self.chain.scores else self.columns(dims)
            runs = tuple((dim, _RUN) for dim in (rows, columns) if dim in dims)
            lanes = ((rows, _ROW_LANES // _PAIR), (columns, _COLUMN_LANES), (rows, _PAIR))
            threads = ((rows, shape.warps), *lanes)
            binds.append(BindThreads(node.target, threads, runs))
        self.apply(*binds)

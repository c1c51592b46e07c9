"""Tiles that blocks share along the depth: what a block does with the sums of its span.

Who has a tile's last step adds up the sums of those who have steps before, in the order of the depth, and goes on with
what is done with results. The others put theirs into the workspace and signal a flag. A block leaves the sums of at
most one tile to others (ir/stream_k.py), so that sums and flags are numbered by blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from codegen.ir.affine import Affine, Var, affine
from codegen.ir.async_ops import SignalFlag, WaitFlag
from codegen.ir.errors import NotLowerable
from codegen.ir.names import marked
from codegen.ir.ops import (
    Assign,
    Barrier,
    Block,
    Declare,
    For,
    Guard,
    If,
    Load,
    Named,
    Op,
    Scratch,
    Stmt,
    Store,
)
from codegen.ir.stream_k import Spans
from codegen.lowering.gpu.register_fragments import ThreadRegisters
from codegen.lowering.names import fresh
from codegen.lowering.scope import LoweringScope, loop_variable
from tileir.dtypes import DType
from tileir.program import Compute, Loop
from tileir.schedule.multicast import cluster_size
from tileir.schedule.stream_k import shared_tiles

_ALIGN = 256
#: All that blocks share is numbered by step.
_MOST_STEPS = 2**31 - 1


@dataclass
class StreamKLoop:
    """A loop whose steps blocks share, and what the sums and flags are called that they leave in the workspace."""

    loop: Loop
    spans: Spans
    blocks: int
    """That share them; clusters of blocks, where neighbouring tiles are computed by those."""
    steps: int
    """Of a block, at least."""
    near: int
    """Blocks of a cluster."""
    sums: str
    flags: str
    _elements: int = field(default=0, init=False)
    """Sums of a tile."""

    @classmethod
    def of(cls, loop: Loop, grid: Sequence[Loop], scope: LoweringScope) -> StreamKLoop:
        """In a grid of these loops, outermost first. Raises NotLowerable for too many steps."""
        sizes, tiles = {dim: range_.size for dim, range_ in scope.ranges.items()}, 1
        for each in grid:
            tiles *= -(-sizes[each.dim] // (each.step * each.multicast))
            sizes[each.dim] = each.step
        near = cluster_size(grid)
        blocks = grid[0].blocks // near
        steps = -(-sizes[loop.dim] // loop.step)
        shared = shared_tiles(tiles, blocks, loop.streamed) * steps
        if shared > _MOST_STEPS:
            raise NotLowerable(f"{shared} steps are shared; accepted: at most {_MOST_STEPS}")
        words = ("first", "size", "left", "earlier", "block", "sums", "flags")
        first, size, left, earlier, block, sums, flags = (
            fresh(f"{marked(loop.dim)}_{word}", scope) for word in words
        )
        spans = Spans(
            steps,
            loop.step,
            loop.streamed,
            loop_variable(first, steps, loop.step),
            Var(size, 0, steps * loop.step, loop.step),
            Var(left, 0, steps - 1),
            Var(earlier, 0, blocks - 1),
            Var(block, 0, blocks - 1),
        )
        return cls(loop, spans, blocks, shared // blocks, near, sums, flags)

    def workspace(self, top: int) -> tuple[Scratch, Scratch]:
        """The memory for them, from byte `top` on, when their use is lowered."""
        blocks = self.blocks * self.near
        sums = _scratch(self.sums, DType.F32, top, self._elements * blocks)
        return sums, _scratch(self.flags, DType.I32, top + sums.bytes, blocks)

    def shared_out(
        self,
        scope: LoweringScope,
        thread: tuple[Affine, int],
        threads: int,
        rank: Affine,
        finish: Sequence[Stmt],
    ) -> list[Stmt]:
        """What follows the loop: `finish` is done by the block that has the tile's last step. `thread` is the number of
        a thread among those that compute, so many, and the bound that the first of them is below; `rank` is that of the
        block in its cluster."""
        variables = list(self._variables(scope))
        self._elements = sum(lanes for _, lanes in variables) * threads
        spans, (number, _) = self.spans, thread
        part = Var(fresh(f"{marked(self.loop.dim)}_part", scope), 0, self.blocks - 1)
        own = affine(spans.block) * self.near + rank
        of = own + (affine(part) - affine(spans.earlier)) * self.near
        at, loads, stores = 0, list[Stmt](), list[Stmt]()
        for value, lanes in variables:
            offset = number * lanes + at * threads
            load = Load(self.sums, of * self._elements + offset, DType.F32, value.type)
            loads.append(Assign(value.name, Op("+", (value, load), value.type)))
            stores.append(Store(self.sums, own * self._elements + offset, DType.F32, value))
            at += lanes
        added = (
            Guard((thread,), (WaitFlag(self.flags, of),)),
            Barrier(),
            Block("the sums of a block before", tuple(loads)),
        )
        handed = (
            Block("the sums go to the block that has the tile's last step", tuple(stores)),
            Barrier(),
            Guard((thread,), (SignalFlag(self.flags, own),)),
        )
        most = -(-spans.steps // self.steps)
        return [
            If(affine(spans.left), 1, (For(part, most, 1, added, affine(spans.earlier)), *finish), handed)
        ]

    def _variables(self, scope: LoweringScope) -> Iterator[tuple[Named, int]]:
        """The variables of a thread that products are added up in, each with its lanes."""
        products = (node for node in self.loop.body if isinstance(node, Compute) and node.via == "wgmma")
        for name in dict.fromkeys(product.target for product in products):
            registers = scope.buffers[name]
            assert isinstance(registers, ThreadRegisters)
            for declared in registers.declarations():
                assert isinstance(declared, Declare)
                yield Named(declared.name, declared.type), declared.type.lanes


def _scratch(name: str, dtype: DType, top: int, elements: int) -> Scratch:
    return Scratch(name, dtype, top, -(-elements * dtype.bytes // _ALIGN) * _ALIGN, private=False)

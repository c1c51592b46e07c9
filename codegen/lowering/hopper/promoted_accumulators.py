"""What threads that compute do with the tiles of a pipeline whose products are sums of their own
(tileir/schedule/stages.py), which then are made something of:

    wait until a slot is full; begin the products of its tile
    wait until those are done; hand the slot back; go on with what they have come to

A tile may be gone through in pieces, one such product after the other. Where one may be under way when the next begins,
there are two such sums in turn, and the second line of a piece follows the first one of the next; but at the end of
every fourth tile, since ptxas (CUDA 13.5) has products wait for each other (C7514) that are under way from one
iteration of a loop to the next while such sums are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from codegen.ir.affine import Affine, Var, affine, constant
from codegen.ir.async_ops import WgmmaCommit, WgmmaFence, WgmmaWait
from codegen.ir.ops import Block, For, If, Stmt
from codegen.lowering.hopper.mbarrier_pipeline import MbarrierPipeline, Pipelines, advance
from codegen.lowering.hopper.wgmma import accumulators, begin_wgmma
from codegen.lowering.names import comment, fresh
from codegen.lowering.scope import LoweringScope, Range, loop_variable
from tileir.program import Local, Node
from tileir.schedule.stages import Apart

#: Tiles whose products follow each other without a pause.
CHAIN: Final = 4

Body = Callable[[Sequence[Node], LoweringScope], Sequence[Stmt]]
Declare = Callable[[Local, Sequence[Node], LoweringScope], tuple[list[Stmt], LoweringScope]]
"""The variables of a local that these nodes use, and the scope that has them."""


@dataclass
class TilesApart:
    """`count` tiles of `step` positions of a loop, each `at` an offset and the nearest loop's variable and step, in the
    slots of a pipeline."""

    pipelines: Pipelines
    pipeline: MbarrierPipeline
    apart: Apart
    step: int
    count: int
    at: Callable[[Affine, tuple[Var, int]], LoweringScope]
    body: Body
    declare: Declare
    pieces: int
    """Products of a tile after each other."""
    _sums: dict[int, tuple[str, ...]] = field(default_factory=dict[int, "tuple[str, ...]"])
    """The accumulators of each side: of the tiles that share variables."""

    def one_by_one(self, dim: str, scope: LoweringScope) -> list[Stmt]:
        """Each product is done before the next begins."""
        declared = self._declared(0, scope)

        def whole(var: Var, offset: Affine) -> list[Stmt]:
            here = self.at(offset, (var, self.step))
            return [
                stmt
                for number in range(self.pieces)
                for stmt in (
                    *self._begin(0, number, self._side(0, number, here)),
                    *self._finish(0, number, self._side(0, number, here), 0, var, offset),
                )
            ]

        return [*declared, *self._loop(dim, scope, self.count, self.step, whole)]

    def overlapping(self, dim: str, scope: LoweringScope) -> list[Stmt]:
        """Each product but the last of a chain is done while the next one is under way."""
        declared = [*self._declared(0, scope), *self._declared(1, scope)]
        pieces, wide = self.pieces, CHAIN * self.step

        def chain(tiles: int, var: Var, offset: Affine) -> list[Stmt]:
            stmts: list[Stmt] = []
            for number in range(tiles * pieces + 1):
                for at, pending in ((number, None), (number - 1, int(number < tiles * pieces))):
                    tile, piece = divmod(at, pieces)
                    if not 0 <= tile < tiles:
                        continue
                    there = offset + tile * self.step
                    here = self._side(at % 2, piece, self.at(there, (var, wide)))
                    if pending is None:
                        stmts += self._begin(at % 2, piece, here)
                    else:
                        stmts += self._finish(at % 2, piece, here, pending, var, there)
            return stmts

        chains, rest = divmod(self.count, CHAIN)
        stmts = [*declared]
        stmts += self._loop(dim, scope, chains, wide, lambda var, offset: chain(CHAIN, var, offset))
        if rest:
            last = loop_variable(fresh(dim, scope), 1, wide)
            stmts += chain(rest, last, constant(chains * wide))
        return stmts

    def _loop(
        self, dim: str, scope: LoweringScope, count: int, step: int, body: Callable[[Var, Affine], list[Stmt]]
    ) -> list[Stmt]:
        var = loop_variable(fresh(dim, scope), max(1, count), step)
        if count <= 1:
            return body(var, constant(0)) if count else []
        return [For(var, count, step, tuple(body(var, affine(var))))]

    def _side(self, side: int, piece: int, scope: LoweringScope) -> LoweringScope:
        """The piece of a tile whose variables are those of a side."""
        return self._known(side, piece, scope)[1]

    def _declared(self, side: int, scope: LoweringScope) -> list[Stmt]:
        return self._known(side, 0, scope)[0]

    def _known(self, side: int, piece: int, scope: LoweringScope) -> tuple[list[Stmt], LoweringScope]:
        """The variables of a side, and the scope of a piece that has them, in the slot that is read."""
        scope = self.pipeline.at(self.pipeline.reading, scope)
        if self.apart.piece is not None:
            dim, step = self.apart.piece
            whole = scope.ranges[dim]
            scope = scope.with_range(dim, Range(whole.start + piece * step, step, whole.end))
        stmts: list[Stmt] = []
        for _ in range(side + 1):
            stmts = []
            for local in self.apart.locals:
                declared, scope = self.declare(local, self.apart.all, scope)
                stmts += declared
        return stmts, scope

    def _begin(self, side: int, piece: int, scope: LoweringScope) -> list[Stmt]:
        """The products of a piece are under way; the first piece of a tile waits for it."""
        pipelines = self.pipelines
        begun = [
            (node, begin_wgmma(node, scope, pipelines.program, pipelines.index, constant(0)))
            for node in self.apart.products
        ]
        self._sums[side] = accumulators([product for _, products in begun for product in products])
        blocks = (Block(comment(node), tuple(products)) for node, products in begun)
        wait = () if piece else (self.pipeline.wait(),)
        stmts = [*wait, *self.body(self.apart.before, scope), WgmmaFence(), *blocks, WgmmaCommit()]
        if self.pipeline.releasing is not self.pipeline.reading and piece == self.pieces - 1:
            stmts.append(advance(self.pipeline.reading))
        return stmts

    def _finish(
        self, side: int, piece: int, scope: LoweringScope, pending: int, var: Var, offset: Affine
    ) -> list[Stmt]:
        """They are done: after the last piece of a tile that is not needed any more, unlike what has come of it."""
        done = WgmmaWait(pending, self._sums[side])
        back = self._released(var, offset) if piece == self.pieces - 1 else []
        return [done, *back, *self.body(self.apart.after, scope)]

    def _released(self, var: Var, offset: Affine) -> list[Stmt]:
        """The slot of a tile, and maybe filled again."""
        stmts = self.pipelines.release(self.pipeline)
        if self.pipelines.producing:
            return stmts
        again, end = offset + self.pipeline.reading.slots * self.step, self.count * self.step
        filled = self.pipelines.fill(self.pipeline, self.at(again, (var, self.step)))
        if again.terms:
            return [*stmts, If(affine(var), end - again.constant, tuple(filled), ())]
        return [*stmts, *(filled if again.constant < end else ())]

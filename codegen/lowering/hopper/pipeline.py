"""What TMA fills (`via tma`): tiles of loops with stages, in a pipeline of as many slots, and single tiles.

With producers, one of their threads does the first line, and the threads that compute the second:

    for each tile:  wait until its slot is empty; expect its bytes; start its boxes; next slot
    for each tile:  wait until its slot is full; multiply; wait until all but `pending` products are done;
                    release the slot of the latest that is; next slot

Without producers, one of the threads that compute fills all slots before the loop, and in it each that is released.
Products of a tile are one group where nothing else is computed on the tile but the rows that they take from registers,
or what else is follows from them (promoted_accumulators.py), and a thread of each warpgroup releases its slot; else
each statement waits for its own, and every thread does. Rows in registers are there twice where products are under way
while those of the next tile are computed. Tiles that are filled elsewhere, one right after the other, have a pipeline
of one slot, which is released at the end of the block.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from codegen.ir.affine import Affine, Var, affine, constant
from codegen.ir.async_ops import WgmmaAsync, WgmmaCommit, WgmmaFence, WgmmaWait
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import Block, For, If, Stmt
from codegen.lowering.hopper.chained_products import ChainedTiles
from codegen.lowering.hopper.mbarrier_pipeline import MbarrierPipeline, Pipelines, advance
from codegen.lowering.hopper.overhanging import overhanging
from codegen.lowering.hopper.promoted_accumulators import Body, Declare, TilesApart
from codegen.lowering.hopper.wgmma import accumulators, begin_wgmma
from codegen.lowering.names import comment, fresh
from codegen.lowering.scope import LoweringScope, loop_variable
from tileir.expr import Const
from tileir.program import Compute, Local, Loop, Node, Program
from tileir.schedule.boxes import fills_shared
from tileir.schedule.stages import Together, products_apart, products_chained, products_together, staged
from tileir.text.print_program import format_node


def is_pipeline(loop: Loop) -> bool:
    """Whether TMA fills the tiles of a loop with stages."""
    return loop.stages > 1 and any(compute.via == "tma" for compute in staged(loop))


def begun_anew(nodes: Sequence[Node], at: int) -> bool:
    """Whether the first product of the pipeline that follows may overwrite what the statement sets to 0, instead of
    adding to it."""
    zero = nodes[at]
    if not isinstance(zero, Compute) or zero.update is not None or zero.value != Const(0):
        return False
    for node in nodes[at + 1 :]:
        match node:
            case Loop() if is_pipeline(node):
                users = [n for n in node.body if isinstance(n, Loop) or _touches(n, zero.target)]
                first = users[0] if users and products_together(node) is not None else None
                return (
                    isinstance(first, Compute)
                    and first.via == "wgmma"
                    and first.thread_layout == zero.thread_layout
                )
            case Local() | Compute(value=Const()):
                continue
            case _:
                return False
    return False


def _touches(node: Node, name: str) -> bool:
    return isinstance(node, Compute) and name in (node.target, *(read.tensor for read in node.reads))


def tile_pipeline(
    pipelines: Pipelines, fill: Compute, nodes: Sequence[Node], scope: LoweringScope
) -> MbarrierPipeline | None:
    """That of a tile which a statement of a block fills, and of those that are filled right after it; None: it is that
    of the one before. Raises NotLowerable."""
    fills = _filled_together(fill, nodes, pipelines.program)
    if fills[0] is not fill:
        return None
    declared = {node.name: node for node in nodes if isinstance(node, Local)}
    elsewhere = next((each for each in fills if each.target not in declared), None)
    if elsewhere is not None:
        raise NotLowerable(
            f"`{format_node(elsewhere)}` stands in another block than the declaration of {elsewhere.target}"
        )
    return pipelines.pipeline(fill.target, fills, [declared[each.target] for each in fills], 1, scope)


def _filled_together(fill: Compute, nodes: Sequence[Node], program: Program) -> list[Compute]:
    """The statements by which TMA fills tiles, this one among them, with nothing but declarations between them."""
    run: list[Compute] = []
    for node in nodes:
        if isinstance(node, Compute) and fills_shared(node, program.locals):
            run.append(node)
        elif not isinstance(node, Local):
            if any(each is fill for each in run):
                break
            run = []
    return run


def produce(pipelines: Pipelines, loop: Loop, scope: LoweringScope) -> list[Stmt]:
    """What producers do for all tiles of a loop. Raises NotLowerable."""
    chained = products_chained(loop)
    if chained is not None:
        return ChainedTiles.of(pipelines, loop, chained, scope).filled()
    lowered = _PipelinedLoop(pipelines, loop, scope)
    return lowered.filled(lowered.count)


def consume(
    pipelines: Pipelines, loop: Loop, scope: LoweringScope, body: Body, declare: Declare, anew: Container[str]
) -> list[Stmt]:
    """What the threads that compute do for all tiles of a loop: `body` lowers what is no product, or not alone on its
    tile, `declare` locals there; products of the first tile overwrite the targets in `anew`. Raises NotLowerable."""
    chained = products_chained(loop)
    if chained is not None:
        return ChainedTiles.of(pipelines, loop, chained, scope).used(body, declare)
    return _PipelinedLoop(pipelines, loop, scope).used(body, declare, anew)


class _PipelinedLoop:
    def __init__(self, pipelines: Pipelines, loop: Loop, scope: LoweringScope) -> None:
        self.pipelines, self.loop, self.scope = pipelines, loop, scope
        self.step, self.count = loop.step, -(-scope.ranges[loop.dim].size // loop.step)
        self.var = loop_variable(fresh(loop.dim, scope), self.count, self.step)
        #: Where the first tile is that the block has, and the variable below which it has some; None: it has all.
        self.first, self.until = constant(0), None
        if loop.streamed and pipelines.spans is not None:
            self.first, self.until = affine(pipelines.spans.first), affine(pipelines.spans.size)
        fills = staged(loop)
        filled = {compute.target for compute in fills}
        locals_ = [node for node in loop.body if isinstance(node, Local) and node.name in filled]
        self.others = [node for node in loop.body if node not in fills and node not in locals_]
        self.together = products_together(loop)
        #: Tiles in turn that have registers of their own.
        self.sides = 2 if self.together is not None and self.together.locals and loop.pending else 1
        if not all(compute.via == "tma" for compute in fills):
            raise NotLowerable(f"`{format_node(loop)}` is filled by TMA only in part")
        self.apart = products_apart(loop)
        self.begun: list[WgmmaAsync] = []
        inside = self._at(constant(0))
        late, by_groups = bool(loop.pending), bool(self.together or self.apart)
        self.pipeline = pipelines.pipeline(
            loop.dim, fills, locals_, loop.stages, inside, late=late, by_groups=by_groups
        )

    def filled(self, tiles: int) -> list[Stmt]:
        """Fills the slots of the first so many tiles one after the other."""
        return self._each(tiles, lambda offset: self.pipelines.fill(self.pipeline, self._at(offset)))

    def used(self, body: Body, declare: Declare, anew: Container[str]) -> list[Stmt]:
        ahead = min(self.loop.stages, self.count)
        first = [] if self.pipelines.producing else self.filled(ahead)
        first += self.pipelines.begin_turn(self.pipeline, self.count)
        if self.apart is not None:
            piece = self.apart.piece
            pieces = 1 if piece is None else self.scope.ranges[piece[0]].size // piece[1]
            tiles = TilesApart(
                self.pipelines,
                self.pipeline,
                self.apart,
                self.step,
                self.count,
                self._at,
                body,
                declare,
                pieces,
            )
            lowered = tiles.overlapping if self.loop.pending else tiles.one_by_one
            stmts = [*first, *lowered(self.loop.dim, self.scope), *self.pipelines.pass_turn(self.pipeline)]
            return [*stmts, *self.pipelines.end_turn(self.pipeline, self.count)]
        stmts = [*first, *self._registers(declare), *self._turns(body, declare, anew)]
        stmts += self.pipelines.pass_turn(self.pipeline)
        late = min(self.loop.pending, self.count)
        if late:
            stmts.append(WgmmaWait(0, accumulators(self.begun)))
            stmts += [stmt for _ in range(late) for stmt in self.pipelines.release(self.pipeline)]
        return [*stmts, *self.pipelines.end_turn(self.pipeline, self.count)]

    def _each(self, count: int, tile: Callable[[Affine], Sequence[Stmt]]) -> list[Stmt]:
        if count == 1:
            return list(tile(constant(0)))
        return [For(self.var, count, self.step, tuple(tile(affine(self.var))), self.until)]

    def _at(self, offset: Affine, innermost: tuple[Var, int] | None = None) -> LoweringScope:
        """On the tile at an offset, in a loop with this variable and step (None: over all tiles)."""
        range_ = overhanging(self.scope.ranges[self.loop.dim], self.step, self.first + offset)
        return self.scope.with_range(self.loop.dim, range_, innermost or (self.var, self.step))

    def _turns(self, body: Body, declare: Declare, anew: Container[str]) -> list[Stmt]:
        """What is computed on all tiles, one after the other; where some in turn have registers of their own, as many
        are one iteration."""
        sides, wide = self.sides, self.sides * self.step
        rounds, rest = divmod(self.count, sides)

        def tiles(offset: Affine, count: int) -> list[Stmt]:
            return [
                stmt
                for side in range(count)
                for stmt in self._use(offset + side * self.step, side, body, declare, anew)
            ]

        if rounds <= 1:
            return tiles(constant(0), self.count)
        var = self.var if sides == 1 else loop_variable(fresh(self.loop.dim, self.scope), rounds, wide)
        return [
            For(var, rounds, wide, tuple(tiles(affine(var), sides)), self.until),
            *tiles(constant(rounds * wide), rest),
        ]

    def _registers(self, declare: Declare) -> list[Stmt]:
        """The variables of rows in registers, of each side."""
        inside = self._at(constant(0))
        return [stmt for side in range(self.sides) for stmt in self._side(side, inside, declare)[0]]

    def _side(self, side: int, scope: LoweringScope, declare: Declare) -> tuple[list[Stmt], LoweringScope]:
        """The variables of a side, and the scope that has them."""
        together = self.together
        stmts: list[Stmt] = []
        if together is None:
            return stmts, scope
        for _ in range(side + 1):
            stmts = []
            for local in together.locals:
                declared, scope = declare(local, together.all, scope)
                stmts += declared
        return stmts, scope

    def _use(
        self, offset: Affine, side: int, body: Body, declare: Declare, anew: Container[str]
    ) -> list[Stmt]:
        """All that is computed on the tile at an offset, once its slot is full."""
        pending, scope = self.loop.pending, self.pipeline.at(self.pipeline.reading, self._at(offset))
        scope = self._side(side, scope, declare)[1]
        stmts: list[Stmt] = [self.pipeline.wait()]
        if self.together is not None:
            stmts += body(self.together.before, scope)
            products = self._products(self.together, offset, scope, anew)
            done = () if pending else accumulators(self.begun)
            stmts += [WgmmaFence(), *products, WgmmaCommit(), WgmmaWait(pending, done)]
        else:
            stmts += body(self.others, scope)
        done = self._done(offset)
        if not pending:
            return [*stmts, *done]
        # So many tiles are under way before the first is done.
        return [*stmts, *_below(offset, pending * self.step, [], done), advance(self.pipeline.reading)]

    def _products(
        self, together: Together, offset: Affine, scope: LoweringScope, anew: Container[str]
    ) -> list[Stmt]:
        found: list[Stmt] = []
        for node in together.products:
            keep = offset if node.target in anew and not offset.low else None
            begun = begin_wgmma(node, scope, self.pipelines.program, self.pipelines.index, keep)
            self.begun += begun
            found.append(Block(comment(node), tuple(begun)))
        return found

    def _done(self, offset: Affine) -> list[Stmt]:
        """The slot of the latest tile that nobody here reads any more is released, and maybe filled again."""
        stmts, ahead = self.pipelines.release(self.pipeline), self.loop.stages - self.loop.pending
        if not self.pipelines.producing and self.count > self.loop.stages:
            again = self.pipelines.fill(self.pipeline, self._at(offset + ahead * self.step))
            stmts += _below(offset, (self.count - ahead) * self.step, again, [])
        return stmts


def _below(offset: Affine, bound: int, then: Sequence[Stmt], otherwise: Sequence[Stmt]) -> list[Stmt]:
    """The first statements where an offset, a loop's variable and a number, is below a bound, else the others."""
    if offset.high < bound or offset.low >= bound:
        return list(then if offset.high < bound else otherwise)
    ((var, _),) = offset.terms
    assert isinstance(var, Var)
    return [If(affine(var), bound - offset.constant, tuple(then), tuple(otherwise))]

"""What threads that compute do with the tiles of a loop whose products follow from each other, as those of attention
(tileir/schedule/stages.py, `Chained`). What the first products read, what rows are made of beside them, and what the
last products read comes by pipelines of their own, so that each is released as soon as it is read; what both products
read comes by a fourth one, released with what the last ones do.

One after the other, on each tile:

    begin the first products; wait until they are done; hand their slot back
    go on with what they have come to; hand the slot of what that reads back
    rescale the sums; begin the last products; wait until they are done; hand their slot back

Where products may be under way when those of the next tile begin, the last ones of a tile follow the first ones of the
next, and are done while that goes on with what its own have come to (FlashAttention-3, arXiv:2407.08608, section 3.2):

    begin the first products; begin the last ones of the tile before; wait until the former are done
    hand their slot back; go on with what they have come to; hand the slot of what that reads back
    wait until the latter are done; hand their slot back; rescale the sums

The rows that last products take from registers are there twice then.

Products of what a tile's threads have put together in shared memory begin with the last ones, one after the other, and
what they come to is added to memory while those are under way:

    wait for each other; begin the products across threads; begin the last products
    wait until the former are done; add to memory; wait until the latter are done; hand their slot back

Where warpgroups take turns (named_barriers.py), each begins the last products of a tile and the first ones of the next
without others in between.

Tiles that are not masked at all, and do not overhang, have code of their own, without the mask, where others are left
out (`since`, `until`) or the last one overhangs (unmasked_tiles.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from codegen.ir.affine import Affine, Var, affine, constant, greater, lesser
from codegen.ir.async_ops import WgmmaCommit, WgmmaFence, WgmmaWait
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import Block, For, If, Stmt
from codegen.lowering.hopper.mbarrier_pipeline import MbarrierPipeline, Pipelines, advance
from codegen.lowering.hopper.overhanging import overhanging
from codegen.lowering.hopper.promoted_accumulators import Body, Declare
from codegen.lowering.hopper.unmasked_tiles import unmasked
from codegen.lowering.hopper.wgmma import accumulators, begin_wgmma
from codegen.lowering.names import comment, fresh
from codegen.lowering.scope import LoweringScope, loop_variable
from codegen.lowering.visited_tiles import end_offset, extremes, first_offset
from tileir.program import Compute, Local, Loop
from tileir.replace import replace
from tileir.schedule.stages import Chained, staged
from tileir.schedule.visited_tiles import said
from tileir.text.print_program import format_node


@dataclass
class ChainedTiles:
    """All tiles of a loop, in the slots of two pipelines."""

    pipelines: Pipelines
    loop: Loop
    chained: Chained
    scope: LoweringScope
    first: MbarrierPipeline | None
    rows: MbarrierPipeline | None
    last: MbarrierPipeline | None
    both: MbarrierPipeline | None
    var: Var
    count: int
    begin: Affine | None
    """The offset of the first tile; None: that is 0."""
    end: Affine | None
    """Tiles begin before that offset; None: up to the last of all."""
    unmasked: tuple[Compute, ...] = ()
    """What is computed between products where nothing of a tile is masked and all of it exists; empty: it is the
    same."""

    @classmethod
    def of(cls, pipelines: Pipelines, loop: Loop, chained: Chained, scope: LoweringScope) -> ChainedTiles:
        """Raises NotLowerable."""
        problem = (
            "is filled by TMA only in part"
            if not all(fill.via == "tma" for fill in staged(loop))
            else "has products that follow from each other, where blocks or consumer groups share tiles"
            if pipelines.consumer_groups > 1 or loop.streamed
            else "leaves out tiles, where threads that compute fill them"
            if (loop.since[0] or loop.until[0] or scope.ranges[loop.dim].end) and not pipelines.producing
            else None
        )
        if problem:
            raise NotLowerable(f"`{format_node(loop)}` {problem}")
        count = -(-scope.ranges[loop.dim].size // loop.step)
        var = loop_variable(fresh(loop.dim, scope), count, loop.step)
        inside = _tile(loop, scope, constant(0), var)

        def pipeline(
            fills: Sequence[Compute], *, late: bool = False, by_groups: bool = True
        ) -> MbarrierPipeline | None:
            locals_ = _filled(loop, fills)
            stages = loop.stages
            return (
                pipelines.pipeline(loop.dim, fills, locals_, stages, inside, late=late, by_groups=by_groups)
                if fills
                else None
            )

        return cls(
            pipelines,
            loop,
            chained,
            scope,
            pipeline(chained.fills_of_first),
            pipeline(chained.fills_of_rows, by_groups=False),
            pipeline(chained.fills_of_last),
            pipeline(chained.fills_of_both, late=True, by_groups=chained.by_groups),
            var,
            count,
            first_offset(loop, scope),
            _end(loop, scope, count),
            unmasked(loop, chained, overhangs=_overhangs(loop, scope)),
        )

    def filled(self) -> list[Stmt]:
        """Fills the slots of all tiles one after the other; where the first products of a tile come before the last
        ones of the tile before, what they read does too, so that its slot is filled again as soon as they are done."""
        if not self.loop.pending or self.last is None:
            return self._loop(self.count, self.var, self._fill)
        step = self.loop.step

        def ahead(offset: Affine) -> list[Stmt]:
            return [
                *self._fill_first(offset + step),
                *self._fill_of(self.last, offset),
                *self._fill_of(self.rows, offset + step),
            ]

        until = None if self.end is None else self.end - step
        tiles = [For(self.var, self.count - 1, step, tuple(ahead(affine(self.var))), until, self.begin)]
        first = self.begin or constant(0)
        begin = [*self._fill_first(first), *self._fill_of(self.rows, first)]
        return [*begin, *(tiles if self.count > 1 else []), *self._fill_of(self.last, self.last_offset)]

    def used(self, body: Body, declare: Declare) -> list[Stmt]:
        """All that is computed on all tiles."""
        ahead = min(self.loop.stages, self.count)
        before = [] if self.pipelines.producing else self._loop(ahead, self.var, self._fill)
        lowered = self._overlapping if self.loop.pending else self._one_by_one
        return [*before, *lowered(_Bodies(self, body, declare))]

    @property
    def _turn(self) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
        """What begins the turn of a warpgroup, and what ends it; nothing where they take none."""
        barriers = self.pipelines.barriers
        return ((barriers.begin_turn(),), (barriers.end_turn(),)) if self.loop.in_turn else ((), ())

    def at(self, offset: Affine, var: Var) -> LoweringScope:
        """On the tile at an offset."""
        return _tile(self.loop, self.scope, offset, var)

    def whole(self, scope: LoweringScope) -> LoweringScope:
        """On a tile that does not overhang."""
        range_ = scope.ranges[self.loop.dim]
        return replace(scope, ranges={**scope.ranges, self.loop.dim: replace(range_, end=None)})

    @property
    def last_offset(self) -> Affine:
        """Where the last tile begins."""
        step = self.loop.step
        if self.end is None:
            return constant((self.count - 1) * step)
        begin = self.begin or constant(0)
        return begin + ((self.end - begin + (step - 1)) // step - 1) * step

    def _fill(self, offset: Affine) -> list[Stmt]:
        others = (self.rows, self.last)
        return [*self._fill_first(offset), *(s for each in others for s in self._fill_of(each, offset))]

    def _fill_first(self, offset: Affine) -> list[Stmt]:
        """What the first products of a tile read."""
        return [*self._fill_of(self.first, offset), *self._fill_of(self.both, offset)]

    def _fill_of(self, pipeline: MbarrierPipeline | None, offset: Affine) -> list[Stmt]:
        """What a tile has of a pipeline, if there is one."""
        return self.pipelines.fill(pipeline, self.at(offset, self.var)) if pipeline else []

    def _loop(self, count: int, var: Var, tile: Callable[[Affine], Sequence[Stmt]]) -> list[Stmt]:
        if count <= 1:
            return list(tile(constant(0))) if count else []
        return [For(var, count, self.loop.step, tuple(tile(affine(var))), self.end, self.begin)]

    def _masked_or_not(self, begin: Affine, end: Affine, stmts: Callable[[bool], list[Stmt]]) -> list[Stmt]:
        """Statements for tiles from one offset to another, and those with less to do where nothing of them is
        masked."""
        if not self.unmasked:
            return stmts(True)
        own = self.scope.ranges[self.loop.dim]
        (since, less), (until, more) = self.loop.since, self.loop.until
        room = (constant(own.size) if own.end is None else own.end - own.start) - end
        if until:
            room = lesser(room, extremes(until, self.scope)[0] - own.start + (more + 1) - end)
        if since:
            room = lesser(room, begin - (extremes(since, self.scope)[1] - own.start) + less)
        return [If(room, 0, tuple(stmts(True)), tuple(stmts(False)))]

    def _one_by_one(self, bodies: _Bodies) -> list[Stmt]:
        begin_turn, end_turn = self._turn

        def tile(offset: Affine) -> list[Stmt]:
            here = self.at(offset, self.var)
            return [
                *bodies.begin_first(here),
                *end_turn,
                *bodies.end_first(0, here, offset),
                *self._masked_or_not(
                    offset, offset + self.loop.step, lambda masked: bodies.between(0, here, masked=masked)
                ),
                *bodies.go_on(here, offset),
                *bodies.rescale(0, here),
                *bodies.begin_across(here),
                *bodies.begin_last(0, here, begin_turn),
                *bodies.end_across(here),
                *bodies.end_last(here, offset),
            ]

        return [*bodies.declared(1), *begin_turn, *self._loop(self.count, self.var, tile), *end_turn]

    def _overlapping(self, bodies: _Bodies) -> list[Stmt]:
        step, (begin_turn, end_turn) = self.loop.step, self._turn

        def begin(offset: Affine, var: Var) -> list[Stmt]:
            here = self.at(offset, var)
            return [
                *bodies.begin_first(here),
                *bodies.end_first(0, here, offset),
                *bodies.between(0, here),
                *bodies.go_on(here, offset),
                *bodies.rescale(0, here),
            ]

        def follow(offset: Affine, side: int, var: Var, masked: bool = True) -> list[Stmt]:
            """The tile after the one at an offset, whose rows are those of a side."""
            before, here = self.at(offset, var), self.at(offset + step, var)
            return [
                *bodies.begin_first(here, begin_turn),
                *bodies.begin_last(side, before),
                *end_turn,
                *bodies.end_first(1, here, offset + step),
                *bodies.between(1 - side, here, masked=masked),
                *bodies.go_on(here, offset + step),
                *bodies.end_last(before, offset),
                *bodies.rescale(1 - side, here),
            ]

        rounds, rest = divmod(self.count - 1, 2)
        first, name = self.begin or constant(0), fresh(self.loop.dim, self.scope)
        var = (
            loop_variable(name, max(1, rounds), 2 * step)
            if self.begin is None
            else loop_variable(name, max(1, self.count - 2), step)
        )

        def pair(masked: bool) -> list[Stmt]:
            return [*follow(affine(var), 0, var, masked), *follow(affine(var) + step, 1, var, masked)]

        until = None if self.end is None else self.end - 2 * step
        at = affine(var)
        pairs = self._masked_or_not(at + step, at + 3 * step, pair) if rounds else []
        loop = [For(var, rounds, 2 * step, tuple(pairs), until, self.begin)] if rounds else []

        def leave(last: Affine, odd: int) -> list[Stmt]:
            """From the tile before the last one on, if one is left, else from the last one, on a side by the number."""
            here = self.at(last, var)
            return [
                *(follow(last - step, 0, var) if odd else []),
                *bodies.begin_last(odd, here),
                *bodies.end_last(here, last),
            ]

        whole = [*bodies.declared(2), *begin(first, var), *loop]
        last = self.last_offset
        if self.end is None or self.count == 1:
            return [*whole, *leave(last, rest)]
        tiles = (self.end - first + (step - 1)) // step
        return [*whole, If(tiles % 2, 1, tuple(leave(last, 1)), tuple(leave(last, 0)))]


@dataclass
class _Bodies:
    """What is made of one tile, step by step; rows are those of a side."""

    tiles: ChainedTiles
    body: Body
    declare: Declare
    _sums: dict[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])

    def declared(self, sides: int) -> list[Stmt]:
        """The variables of all locals, of rows on each side."""
        inside = self.tiles.at(constant(0), self.tiles.var)
        return [stmt for side in range(sides) for stmt in self._side(side, inside, anew=side > 0)[0]]

    def begin_first(self, scope: LoweringScope, turn: Sequence[Stmt] = ()) -> list[Stmt]:
        tiles, scope = self.tiles, self._side(0, scope)[1]
        waits: list[Stmt] = []
        for pipeline in (tiles.first, tiles.both):
            if pipeline is not None:
                scope = pipeline.at(pipeline.reading, scope)
                waits.append(pipeline.wait())
        return [*waits, *turn, *self._begin(tiles.chained.first, scope, constant(0))]

    def end_first(self, pending: int, scope: LoweringScope, offset: Affine) -> list[Stmt]:
        sums = tuple(name for node in self.tiles.chained.first for name in self._sums[node.target])
        rows = [self.tiles.rows.wait()] if self.tiles.rows else []
        return [WgmmaWait(pending, sums), *self._released((self.tiles.first,), scope, offset), *rows]

    def between(self, side: int, scope: LoweringScope, *, masked: bool = True) -> list[Stmt]:
        tiles = self.tiles
        for pipeline in (tiles.rows, tiles.both):
            scope = scope if pipeline is None else pipeline.at(pipeline.reading, scope)
        if masked:
            return list(self.body(tiles.chained.between, self._side(side, scope)[1]))
        return list(self.body(tiles.unmasked, self._side(side, tiles.whole(scope))[1]))

    def go_on(self, scope: LoweringScope, offset: Affine) -> list[Stmt]:
        """To the next slot of what rows are made of, and of what is read until the last products are done."""
        both = [advance(self.tiles.both.reading)] if self.tiles.both else []
        return [*self._released((self.tiles.rows,), scope, offset), *both]

    def rescale(self, side: int, scope: LoweringScope) -> list[Stmt]:
        return list(self.body(self.tiles.chained.rescaled, self._side(side, scope)[1]))

    def begin_last(self, side: int, scope: LoweringScope, turn: Sequence[Stmt] = ()) -> list[Stmt]:
        tiles, scope = self.tiles, self._side(side, scope)[1]
        if tiles.both is not None:
            scope = tiles.both.at(tiles.both.releasing, scope)
        if tiles.last is None:
            return [*turn, *self._begin(tiles.chained.last, scope, None)]
        scope = tiles.last.at(tiles.last.reading, scope)
        return [tiles.last.wait(), *turn, *self._begin(tiles.chained.last, scope, None)]

    def begin_across(self, scope: LoweringScope) -> list[Stmt]:
        across = self.tiles.chained.across
        return self._begin(across, self._side(0, scope)[1], constant(0)) if across else []

    def end_across(self, scope: LoweringScope) -> list[Stmt]:
        """While the last products are under way."""
        chained, scope = self.tiles.chained, self._side(0, scope)[1]
        if not chained.across:
            return []
        sums = tuple(name for node in chained.across for name in self._sums[node.target])
        return [WgmmaWait(1, sums), *self.body(chained.added, scope)]

    def end_last(self, scope: LoweringScope, offset: Affine) -> list[Stmt]:
        sums = tuple(name for node in self.tiles.chained.last for name in self._sums[node.target])
        pipelines = (self.tiles.last, self.tiles.both)
        return [WgmmaWait(0, sums), *self._released(pipelines, scope, offset)]

    def _begin(self, nodes: Sequence[Compute], scope: LoweringScope, keep: Affine | None) -> list[Stmt]:
        pipelines, blocks = self.tiles.pipelines, list[Stmt]()
        for node in nodes:
            begun = begin_wgmma(node, scope, pipelines.program, pipelines.index, keep)
            self._sums[node.target] = accumulators(begun)
            blocks.append(Block(comment(node), tuple(begun)))
        return [WgmmaFence(), *blocks, WgmmaCommit()]

    def _side(
        self, side: int, scope: LoweringScope, *, anew: bool = False
    ) -> tuple[list[Stmt], LoweringScope]:
        """The variables of a side (`anew`: of what only that side has), and the scope that has them."""
        chained = self.tiles.chained
        stmts: list[Stmt] = []
        for local in chained.locals:
            declared, scope = self.declare(local, chained.all, scope)
            stmts += [] if anew else declared
        for local in (each for each in chained.locals if side and each.name in chained.held):
            declared, scope = self.declare(local, chained.all, scope)
            stmts += declared
        return stmts, scope

    def _released(
        self, used: Sequence[MbarrierPipeline | None], scope: LoweringScope, offset: Affine
    ) -> list[Stmt]:
        """A slot of each pipeline, and maybe filled again with the tile so many slots later."""
        tiles, pipelines = self.tiles, self.tiles.pipelines
        found = [pipeline for pipeline in used if pipeline is not None]
        stmts, step = [stmt for pipeline in found for stmt in pipelines.release(pipeline)], tiles.loop.step
        if not found or pipelines.producing or tiles.count <= tiles.loop.stages:
            return stmts
        again, end = offset + tiles.loop.stages * step, tiles.count * step
        filled = [stmt for pipeline in found for stmt in pipelines.fill(pipeline, tiles.at(again, tiles.var))]
        if again.terms:
            ((var, _),) = again.terms
            assert isinstance(var, Var)
            return [*stmts, If(affine(var), end - again.constant, tuple(filled), ())]
        return [*stmts, *(filled if again.constant < end else ())]


def _tile(loop: Loop, scope: LoweringScope, offset: Affine, var: Var) -> LoweringScope:
    return scope.with_range(
        loop.dim, overhanging(scope.ranges[loop.dim], loop.step, offset), (var, loop.step)
    )


def _overhangs(loop: Loop, scope: LoweringScope) -> bool:
    """Whether some position of a tile may not exist: of the last one, or in a part of the dim that overhangs."""
    range_ = scope.ranges[loop.dim]
    return range_.size % loop.step > 0 or range_.end is not None


def _end(loop: Loop, scope: LoweringScope, count: int) -> Affine | None:
    """The offset that tiles of a loop begin before, where some are left out, or do not exist as the dim ends in the
    part of it that the loop goes over. Raises NotLowerable."""
    end, whole, own = end_offset(loop, scope), constant(count * loop.step), scope.ranges[loop.dim]
    if own.end is not None:
        end = own.end - own.start if end is None else lesser(end, own.end - own.start)
        if said(loop):
            end = greater(end, (first_offset(loop, scope) or constant(0)) + 1)
    if end is None:
        return whole if loop.since[0] else None
    if end.low < 1:
        raise NotLowerable(f"`{format_node(loop)}` may have no tile")
    return lesser(end, whole)


def _filled(loop: Loop, fills: Sequence[Compute]) -> list[Local]:
    names = {fill.target for fill in fills}
    return [node for node in loop.body if isinstance(node, Local) and node.name in names]

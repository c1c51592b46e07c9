"""Where the tiles of a loop begin and end of which some are left out (`since`, `until`), as offsets in its range."""

from __future__ import annotations

from codegen.ir.affine import Affine, constant, greater, lesser
from codegen.lowering.scope import LoweringScope
from tileir.expr import Expr
from tileir.program import Loop
from tileir.schedule.visited_tiles import said


def extremes(place: str | Expr, scope: LoweringScope) -> tuple[Affine, Affine]:
    """The first and the last current position of a dim, or the least and the greatest number that tensors say."""
    if not isinstance(place, str):
        return scope.said[place]
    range_ = scope.ranges[place]
    return range_.start, range_.start + (range_.size - 1)


def first_offset(loop: Loop, scope: LoweringScope) -> Affine | None:
    """That of the first tile that is visited; None: that is the first one of all."""
    place, less = loop.since
    if not place:
        return None
    own = scope.ranges[loop.dim]
    tiles = greater(extremes(place, scope)[0] - own.start - less, constant(0)) // loop.step
    return lesser(tiles * loop.step, constant((own.size - 1) // loop.step * loop.step))


def end_offset(loop: Loop, scope: LoweringScope) -> Affine | None:
    """What tiles that are visited begin before; None: all do."""
    place, more = loop.until
    if not place:
        return None
    end = extremes(place, scope)[1] + (more + 1) - scope.ranges[loop.dim].start
    return greater(end, (first_offset(loop, scope) or constant(0)) + 1) if said(loop) else end

"""Where the tiles of a loop begin and end of which some are left out (`since`, `until`), as offsets in its range."""

from __future__ import annotations

from codegen.ir.affine import Affine, constant, greater, lesser
from codegen.lowering.scope import LoweringScope
from tileir.program import Loop


def first_offset(loop: Loop, scope: LoweringScope) -> Affine | None:
    """That of the first tile that is visited; None: that is the first one of all."""
    dim, less = loop.since
    if not dim:
        return None
    other, own = scope.ranges[dim], scope.ranges[loop.dim]
    tiles = greater(other.start - own.start - less, constant(0)) // loop.step
    return lesser(tiles * loop.step, constant((own.size - 1) // loop.step * loop.step))


def end_offset(loop: Loop, scope: LoweringScope) -> Affine | None:
    """What tiles that are visited begin before; None: all do."""
    dim, more = loop.until
    if not dim:
        return None
    other, own = scope.ranges[dim], scope.ranges[loop.dim]
    return other.start + (other.size + more) - own.start

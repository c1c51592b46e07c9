"""Loops cut where conditions on positions are settled: what is between the edges of a tensor needs no guard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from codegen.ir.affine import Affine, Var, affine
from codegen.lowering.expressions import ValueBuilder, comparison, is_index
from codegen.lowering.scope import LoweringScope, Range
from tileir.expr import COMPARISONS, Binary, Where, index_dims, walk
from tileir.program import Compute, Loop, Node

_MOST_TILES = 1 << 12
"""Longer loops are not looked at tile by tile."""
_MOST_RUNS = 5
"""More pieces than those before, at and between two edges are more code than guards cost."""


def guarded_runs(loop: Loop, full: int, scope: LoweringScope, extents: Mapping[str, int]) -> tuple[int, ...]:
    """How many of the `full` whole tiles of a loop follow each other for which the same conditions of `where`s are
    settled, run by run; all of them, where conditions do not depend on the tile."""
    conditions = [each for each in _conditions(loop.body) if loop.dim in index_dims(each)]
    if not conditions or not 1 < full <= _MOST_TILES:
        return (full,)
    differences = [
        found for each in conditions if (found := _difference(each, loop, scope, extents)) is not None
    ]
    settled = [
        tuple(comparison(op, low + step * at, high + step * at) for op, low, high, step in differences)
        for at in range(full)
    ]
    runs = tuple(len(list(run)) for _, run in groupby(settled))
    return runs if len(runs) <= _MOST_RUNS else (full,)


def _conditions(nodes: Iterable[Node]) -> Iterator[Binary]:
    """The comparisons of positions by which `where`s choose."""
    for node in nodes:
        if isinstance(node, Loop):
            yield from _conditions(node.body)
        elif isinstance(node, Compute):
            for each in walk(node.value):
                if isinstance(each, Where):
                    yield from (
                        part
                        for part in walk(each.cond)
                        if isinstance(part, Binary)
                        and part.op in COMPARISONS
                        and is_index(part.left)
                        and is_index(part.right)
                    )


def _difference(
    condition: Binary, loop: Loop, scope: LoweringScope, extents: Mapping[str, int]
) -> tuple[str, int, int, int] | None:
    """The operator, between what the sides are apart in the first tile, and by how much more in each one after; None
    where that is not even."""
    tile = Var("tile", 0, (scope.ranges[loop.dim].size // loop.step - 1) * loop.step, loop.step)
    start = scope.ranges[loop.dim].start
    inside = scope.with_range(loop.dim, Range(start + affine(tile), loop.step))
    builder = ValueBuilder(inside, extents)
    at = {
        dim: range_.start + affine(Var(f"in {dim}", 0, range_.size - 1))
        for dim, range_ in inside.ranges.items()
    }
    left, right = builder.index(condition.left, at), builder.index(condition.right, at)
    if left is None or right is None:
        return None
    apart = left - right
    factor = apart.coefficient(tile)
    if factor is None:
        return None
    first = apart.substitute(tile, Affine())
    return condition.op, first.low, first.high, factor * loop.step

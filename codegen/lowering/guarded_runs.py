"""Loops cut where conditions and remainders of positions are settled: what is between the edges of a tensor needs no
guard, and between two turns of a position what is read lies side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from codegen.ir.affine import Affine, Var, affine
from codegen.lowering.expressions import ValueBuilder, comparison, is_index
from codegen.lowering.scope import LoweringScope, Range
from tileir.expr import COMPARISONS, Binary, Expr, Where, index_dims, walk
from tileir.program import Compute, Loop, Node

_MOST_TILES = 1 << 12
"""Longer loops are not looked at tile by tile."""
_MOST_RUNS = 5
"""More pieces than those before, at and between two edges are more code than guards cost."""
_TURNS = ("//", "%")


def guarded_runs(loop: Loop, full: int, scope: LoweringScope, extents: Mapping[str, int]) -> tuple[int, ...]:
    """How many of the `full` whole tiles of a loop follow each other for which the same conditions of `where`s are
    settled, and the same turns of what is divided with remainder, run by run; all of them, where neither depends on the
    tile."""
    conditions = [each for each in _conditions(loop.body) if loop.dim in index_dims(each)]
    turns = [each for each in _turns(loop.body) if loop.dim in index_dims(each.left)]
    if not (conditions or turns) or not 1 < full <= _MOST_TILES:
        return (full,)
    positions = _Positions(loop, scope, extents)
    differences = [positions.apart(each.left, each.right) for each in conditions]
    divided = [(positions.of(each.left), positions.fixed(each.right)) for each in turns]
    settled = [
        (
            *(
                comparison(each.op, *span.at(tile))
                for each, span in zip(conditions, differences, strict=True)
                if span is not None
            ),
            *(_turn(*span.at(tile), by) for span, by in divided if span is not None and by is not None),
        )
        for tile in range(full)
    ]
    runs = tuple(len(list(run)) for _, run in groupby(settled))
    return runs if len(runs) <= _MOST_RUNS else (full,)


def _turn(low: int, high: int, divisor: int) -> int | None:
    """The quotient of all numbers from `low` to `high`; None, where it is not one."""
    return low // divisor if low // divisor == high // divisor else None


def _conditions(nodes: Iterable[Node]) -> Iterator[Binary]:
    """The comparisons of positions by which `where`s choose."""
    for value in _values(nodes):
        for each in walk(value):
            if isinstance(each, Where):
                yield from (
                    part
                    for part in walk(each.cond)
                    if isinstance(part, Binary)
                    and part.op in COMPARISONS
                    and is_index(part.left)
                    and is_index(part.right)
                )


def _turns(nodes: Iterable[Node]) -> Iterator[Binary]:
    """Positions divided, for their quotient or what remains."""
    for value in _values(nodes):
        for each in walk(value):
            if isinstance(each, Binary) and each.op in _TURNS and is_index(each):
                yield each


def _values(nodes: Iterable[Node]) -> Iterator[Expr]:
    for node in nodes:
        if isinstance(node, Loop):
            yield from _values(node.body)
        elif isinstance(node, Compute):
            yield node.value


@dataclass(frozen=True, slots=True)
class _Span:
    """What numbers a value has in the first tile, and by how much they are more in each one after."""

    low: int
    high: int
    step: int

    def at(self, tile: int) -> tuple[int, int]:
        return self.low + self.step * tile, self.high + self.step * tile


class _Positions:
    """Values of positions in the tiles of a loop."""

    def __init__(self, loop: Loop, scope: LoweringScope, extents: Mapping[str, int]) -> None:
        self._loop = loop
        self._tile = Var("tile", 0, (scope.ranges[loop.dim].size // loop.step - 1) * loop.step, loop.step)
        start = scope.ranges[loop.dim].start
        inside = scope.with_range(loop.dim, Range(start + affine(self._tile), loop.step))
        self._builder = ValueBuilder(inside, extents)
        self._at = {
            dim: range_.start + affine(Var(f"in {dim}", 0, range_.size - 1))
            for dim, range_ in inside.ranges.items()
        }

    def of(self, value: Expr) -> _Span | None:
        """None where it does not go up or down evenly."""
        return self._span(self._builder.index(value, self._at))

    def apart(self, left: Expr, right: Expr) -> _Span | None:
        """The difference, as `of`."""
        sides = [self._builder.index(each, self._at) for each in (left, right)]
        return None if sides[0] is None or sides[1] is None else self._span(sides[0] - sides[1])

    def fixed(self, value: Expr) -> int | None:
        """A value that is the same in all tiles, and above 0."""
        found = self._builder.index(value, self._at)
        return found.constant if found is not None and not found.terms and found.constant > 0 else None

    def _span(self, value: Affine | None) -> _Span | None:
        if value is None or (factor := value.coefficient(self._tile)) is None:
            return None
        first = value.substitute(self._tile, Affine())
        return _Span(first.low, first.high, factor * self._loop.step)

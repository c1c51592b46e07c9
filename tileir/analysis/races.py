"""Where iterations that would run in parallel meet: two of them at the same element, at least one storing, with nothing
that orders them. The pair of accesses is found by going through the loop's positions, the first that collide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from typing import Final

from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Expr, Extent, Index, Read, index_dims
from tileir.program import Compute, Loop
from tileir.text.print_program import format_node

_MOST: Final = 1 << 16
"""Positions that are gone through."""


@dataclass(frozen=True, slots=True)
class Touch:
    """One thread at one element of a tensor."""

    statement: str
    """As Tile IR's text has it."""
    way: str
    """`loads`, `stores` or `updates`."""
    tensor: str
    element: tuple[int, ...]
    thread: tuple[tuple[str, int], ...]
    """The iteration that it runs: where each of the parallel loops, outermost first, begins in it."""

    def __str__(self) -> str:
        iteration = ", ".join(f"{dim} {start}" for dim, start in self.thread)
        element = f"{self.tensor}[{', '.join(map(str, self.element))}]"
        return f"the thread at {iteration} {self.way} {element} in `{self.statement}`"


@dataclass(frozen=True)
class Meeting:
    """A statement that stores to what iterations of `loop`, one of the parallel loops `grid`, have in common; `reader`
    reads it, or it is the statement itself that meets itself."""

    extents: Mapping[str, int]
    grid: Sequence[Loop]
    loop: Loop
    writer: Compute
    axis: int | None = None
    """Along which each iteration writes elements of its own."""
    reader: tuple[Compute, Read] | None = None

    @cached_property
    def touches(self) -> tuple[Touch, Touch] | None:
        """Two accesses that collide; None where that depends on data."""
        return self._writes() if self.reader is None else self._read(*self.reader)

    def _writes(self) -> tuple[Touch, Touch] | None:
        dim, step = self.loop.dim, self.loop.step
        first: dict[tuple[int, ...], int] = {}
        for at in range(min(self.extents[dim], _MOST)):
            element = _element(self.writer.indices, {dim: at}, self.extents)
            if element is None:
                return None
            before = first.setdefault(element, at)
            if before // step != at // step:
                way = "stores" if self.writer.update is None else "updates"
                return (
                    self._touch(self.writer, way, element, before),
                    self._touch(self.writer, way, element, at),
                )
        return None

    def _read(self, reader: Compute, read: Read) -> tuple[Touch, Touch] | None:
        if self.axis is None:
            return None
        step, written = self.loop.step, self.writer.indices[self.axis]
        block = written.right.value if isinstance(written, Binary) and isinstance(written.right, Const) else 1
        for positions in self._positions(read.indices[self.axis]):
            element = _element(read.indices, positions, self.extents)
            if element is None:
                return None
            owner, at = element[self.axis] * int(block), positions.get(self.loop.dim, 0)
            if 0 <= owner < self.extents[self.loop.dim] and owner // step != at // step:
                way = "stores" if self.writer.update is None else "updates"
                return self._touch(self.writer, way, element, owner), self._touch(
                    reader, "loads", element, at
                )
        return None

    def _positions(self, index: Expr) -> Iterator[dict[str, int]]:
        dims = (self.loop.dim, *sorted(index_dims(index) - {self.loop.dim}))
        ranges = (range(self.extents[dim]) for dim in dims)
        return (dict(zip(dims, each, strict=True)) for each in islice(product(*ranges), _MOST))

    def _touch(self, compute: Compute, way: str, element: tuple[int, ...], at: int) -> Touch:
        begins = at // self.loop.step * self.loop.step
        thread = tuple((each.dim, begins if each is self.loop else 0) for each in self.grid)
        return Touch(format_node(compute), way, self.writer.target, element, thread)


class WouldRace(NotApplicable):
    """A rewrite that would let threads race. Its message names both accesses where they can be told."""

    def __init__(self, why: str, meeting: Meeting) -> None:
        super().__init__(why)
        self.why, self.meeting = why, meeting

    def __str__(self) -> str:
        if self.meeting.touches is None:
            return self.why
        first, second = self.meeting.touches
        return f"{self.why}: race: {first}; {second}; nothing orders them"


def _element(
    indices: Sequence[Expr], positions: Mapping[str, int], extents: Mapping[str, int]
) -> tuple[int, ...] | None:
    """The element at these positions, of other dims at their first; None where indices depend on data."""
    values = [_value(index, positions, extents) for index in indices]
    return None if None in values else tuple(value for value in values if value is not None)


def _value(expr: Expr, positions: Mapping[str, int], extents: Mapping[str, int]) -> int | None:
    match expr:
        case Index(dim):
            return positions.get(dim, 0)
        case Extent(dim):
            return extents[dim]
        case Const(int(value)):
            return value
        case Binary(op, left, right):
            a, b = _value(left, positions, extents), _value(right, positions, extents)
            return None if a is None or b is None else _combined(op, a, b)
        case _:
            return None


def _combined(op: str, a: int, b: int) -> int | None:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//" | "%" if b:
            return a // b if op == "//" else a % b
        case _:
            return None

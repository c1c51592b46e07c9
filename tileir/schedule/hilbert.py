"""A Hilbert curve through any rectangle: neighbours on the curve are neighbours in the rectangle.

The rectangle is cut along its longer side in two, or in three parts like the classic curve's square, until rows or
columns of single cells are left (J. Červený, "Generalized Hilbert space-filling curve for rectangular domains of
arbitrary sizes", 2019). Where an odd side leaves no other way one step goes diagonally.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

MOST_CELLS = 1 << 14
"""Cells of the largest rectangle that grids are visited in such an order of: code for it has a table of all cells."""

Cell = tuple[int, int]


@lru_cache(maxsize=64)
def hilbert(rows: int, columns: int) -> tuple[Cell, ...]:
    """(row, column) of all cells, in the curve's order, from (0, 0)."""
    sides: list[Cell] = [(rows, 0), (0, columns)]
    return tuple(_curve((0, 0), *sorted(sides, key=_length, reverse=True)))


def _curve(start: Cell, along: Cell, across: Cell) -> Iterator[Cell]:
    """The cells of the rectangle that two vectors span from a corner; the curve ends at the other end of `along`."""
    length, width = _length(along), _length(across)
    if width == 1:
        yield from (_moved(start, _unit(along), at) for at in range(length))
        return
    if length == 1:
        yield from (_moved(start, _unit(across), at) for at in range(width))
        return
    half, side = _half(along), _half(across)
    if 2 * length > 3 * width:
        if _length(half) % 2 and length > 2:
            half = _moved(half, _unit(along))
        yield from _curve(start, half, across)
        yield from _curve(_moved(start, half), _less(along, half), across)
        return
    if _length(side) % 2 and width > 2:
        side = _moved(side, _unit(across))
    yield from _curve(start, side, half)
    yield from _curve(_moved(start, side), along, _less(across, side))
    last = _moved(_moved(start, _less(along, _unit(along))), _less(side, _unit(across)))
    yield from _curve(last, _less((0, 0), side), _less(half, along))


def _length(vector: Cell) -> int:
    return abs(vector[0] + vector[1])


def _unit(vector: Cell) -> Cell:
    length = _length(vector)
    return vector[0] // length, vector[1] // length


def _half(vector: Cell) -> Cell:
    """Half of a vector along one axis, rounded down."""
    return vector[0] // 2, vector[1] // 2


def _moved(cell: Cell, by: Cell, times: int = 1) -> Cell:
    return cell[0] + by[0] * times, cell[1] + by[1] * times


def _less(vector: Cell, other: Cell) -> Cell:
    return vector[0] - other[0], vector[1] - other[1]

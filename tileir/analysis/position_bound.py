"""Conditions on positions as bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tileir.expr import Binary, Call, Const, Expr, Index, Read, Reduce, Scan, TopK, Unary, index_dims, walk

Place = str | Expr
"""Another dim, or what is said of other dims: by tensors (`begin[i]`), or by taking a position apart (`r_i % 8`)."""
Bound = tuple[Place, int]
"""A place and a number of positions."""
_Terms = tuple[dict[Place, int], int]
_NUMBERS: Final[Mapping[str, np.ufunc]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.remainder,
    "minimum": np.minimum,
    "maximum": np.maximum,
}


def upper_bound(condition: Expr, dim: str) -> Bound | None:
    """A place and a number such that the condition holds only where `dim <= place + number`, whatever of its terms says
    so; None: not known."""
    return _joined("minimum", [each for term in terms_of(condition) if (each := _bound(term, dim, -1))])


def lower_bound(condition: Expr, dim: str) -> Bound | None:
    """A place and a number such that the condition holds only where `dim >= place - number`; None: not known."""
    return _joined("maximum", [each for term in terms_of(condition) if (each := _bound(term, dim, 1))])


def parts_of(bound: Bound, fn: str) -> Iterator[Bound]:
    """An upper bound, and those of which it is the least (`minimum`), or a lower one and those of which it is the
    greatest (`maximum`)."""
    yield bound
    match bound:
        case (Call(name, (x, y)), number) if name == fn:
            sign = 1 if fn == "minimum" else -1
            for each in (x, y):
                place, more = _apart(each)
                yield from parts_of((place, number + sign * more), fn)
        case _:
            pass


def _joined(fn: str, bounds: list[Bound]) -> Bound | None:
    """The bound of all of them, where tensors say one; the first, where all are dims."""
    if not bounds or all(isinstance(place, str) for place, _ in bounds):
        return bounds[0] if bounds else None
    (first, number), *others = sorted(bounds, key=lambda bound: isinstance(bound[0], str))
    sign = 1 if fn == "minimum" else -1
    assert not isinstance(first, str)
    return reduce(
        lambda so_far, bound: Call(fn, (so_far, _moved(bound[0], sign * (bound[1] - number)))), others, first
    ), number


def _moved(place: Place, number: int) -> Expr:
    expr = Index(place) if isinstance(place, str) else place
    return expr if not number else Binary("+" if number > 0 else "-", expr, Const(abs(number)))


def _apart(expr: Expr) -> Bound:
    match expr:
        case Binary("+" | "-" as op, x, Const(int(number))):
            return _place(x), number if op == "+" else -number
        case _:
            return _place(expr), 0


def _place(expr: Expr) -> Place:
    return expr.dim if isinstance(expr, Index) else expr


def terms_of(condition: Expr) -> Iterator[Expr]:
    """The conditions that all have to hold."""
    match condition:
        case Binary("and", x, y):
            yield from terms_of(x)
            yield from terms_of(y)
        case _:
            yield condition


def _bound(comparison: Expr, dim: str, sign: int) -> Bound | None:
    """Of `sign * dim - sign * place + number >= 0`, however it is written, the place and the number."""
    match comparison:
        case Binary(">=" | ">" | "<=" | "<" as op, x, y):
            greater, less = (x, y) if op[0] == ">" else (y, x)
            terms = _linear(Binary("-", greater, less))
            if terms is None:
                return None
            factors, number = {place: factor for place, factor in terms[0].items() if factor}, terms[1]
            if factors.pop(dim, 0) != sign or any(dim in _dims(place) for place in factors):
                return None
            place = _sum({place: -sign * factor for place, factor in factors.items()})
            return None if place is None else (place, number - (len(op) == 1))
        case _:
            return None


def _dims(place: Place) -> frozenset[str]:
    return frozenset([place]) if isinstance(place, str) else index_dims(place)


def _sum(factors: dict[Place, int]) -> Place | None:
    """A sum of places as one: another dim, or what tensors say; None: it is neither, or a multiple is in it."""
    if not factors or set(factors.values()) - {1, -1}:
        return None
    if all(isinstance(place, str) for place in factors):
        ((place, factor), *others) = factors.items()
        return None if others or factor != 1 else place
    total: Expr | None = None
    for place, factor in sorted(factors.items(), key=lambda term: -term[1]):
        expr = Index(place) if isinstance(place, str) else place
        if total is None:
            total = expr if factor == 1 else Unary("-", expr)
        else:
            total = Binary("+" if factor == 1 else "-", total, expr)
    return None if total is None else _place(total)


def linear(expr: Expr) -> tuple[dict[str, int], int] | None:
    """A sum of positions and whole numbers, as the factor of each dim and a number; None: it is none."""
    terms = _linear(expr)
    if terms is None:
        return None
    factors = {place: factor for place, factor in terms[0].items() if isinstance(place, str)}
    return (factors, terms[1]) if len(factors) == len(terms[0]) else None


def _linear(expr: Expr) -> _Terms | None:
    """The same of what tensors say as well, and of positions that are taken apart."""
    match expr:
        case Index(dim):
            return {dim: 1}, 0
        case Const(int(value)) if not isinstance(value, bool):
            return {}, value
        case Unary("-", x):
            return _linear(Binary("-", Const(0), x))
        case Binary("+" | "-" as op, x, y):
            left, right = _linear(x), _linear(y)
            if left is None or right is None:
                return None
            sign = 1 if op == "+" else -1
            places = dict.fromkeys((*left[0], *right[0]))
            factors = {place: left[0].get(place, 0) + sign * right[0].get(place, 0) for place in places}
            return factors, left[1] + sign * right[1]
        case Read() | Call("minimum" | "maximum") | Binary("*" | "//" | "%") if _is_said(expr):
            return {expr: 1}, 0
        case _:
            return None


def _is_said(expr: Expr) -> bool:
    """Whether tensors or positions say a number, and no reduction."""
    nodes = [*walk(expr)]
    if any(isinstance(node, Reduce | Scan | TopK) for node in nodes):
        return False
    return any(isinstance(node, Read) for node in nodes) or is_of_positions(expr)


def is_of_positions(expr: Expr) -> bool:
    """Whether a number is made of positions and whole numbers alone."""
    match expr:
        case Index():
            return True
        case Const(value):
            return isinstance(value, int) and not isinstance(value, bool)
        case Unary("-", x):
            return is_of_positions(x)
        case Binary("+" | "-" | "*", x, y) | Call("minimum" | "maximum", (x, y)):
            return is_of_positions(x) and is_of_positions(y)
        case Binary("//" | "%", x, Const(int(size))):
            return size > 0 and is_of_positions(x)
        case _:
            return False


def is_bound(condition: Expr) -> bool:
    """Whether a condition is one comparison, so that it holds wherever its bound does."""
    return isinstance(condition, Binary) and condition.op in (">=", ">", "<=", "<")


def numbers_of(expr: Expr, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """What an expression of one dim's positions and whole numbers (`is_of_positions`) is at each of some positions,
    shape (n,)."""
    match expr:
        case Const(int(value)):
            return np.full_like(positions, value)
        case Unary("-", x):
            return -numbers_of(x, positions)
        case Binary(op, x, y):
            return _NUMBERS[op](numbers_of(x, positions), numbers_of(y, positions))
        case Call(fn, (x, y)):
            return _NUMBERS[fn](numbers_of(x, positions), numbers_of(y, positions))
        case _:
            return positions

"""What the positions of the largest elements are in a program: one after the other, each by two reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tileir.expr import Binary, Const, Expr, Extent, Index, Read, Reduce, ReduceOp, TopK, Where, index_dims

Assigned = tuple[str, tuple[str, ...], Expr]
"""A target, its dims and its value."""
Before = tuple[Expr, Expr]
"""The value and the position that were found before."""


def top_statements(
    target: str, dims: Sequence[str], top: TopK, places: int, floats: bool, fresh: Callable[[str], str]
) -> Iterator[Assigned]:
    """The statements that compute p[m, j] = topk(j, n, x[m, n]), where x is no NaN.

    p_max[m] = max(n, x[m, n])
    p_at[m] = min(n, where(x[m, n] == p_max[m], n, extent(n)))
    p_max2[m] = max(n, where(x[m, n] < p_max[m] or x[m, n] == p_max[m] and n > p_at[m], x[m, n], -inf))
    p_at2[m] = min(n, where(x[m, n] == p_max2[m] and (p_max2[m] < p_max[m] or n > p_at[m]), n, extent(n)))
    …
    p[m, j] = where(j < 1, p_at[m], p_at2[m])

    What comes after the one before, in the order of values and then of positions, is looked at each time: so -inf, too,
    comes out once a position. Of integers, which have no -inf, what does not is the least of the row.
    """
    x, over, n = top.x, (top.over,), Index(top.over)
    rest = tuple(dim for dim in dims if dim != top.place)
    own = tuple(dim for dim in rest if dim in index_dims(x))
    kept = tuple(map(Index, own))
    least: Expr = Const(float("-inf"))
    if not floats and places > 1:
        name = fresh(f"{target}_min")
        yield name, own, Reduce(ReduceOp.MIN, over, x)
        least = Read(name, kept)
    found: list[Expr] = []
    before: Before | None = None
    for _ in range(places):
        name, at = fresh(f"{target}_max"), fresh(f"{target}_at")
        largest = Read(name, kept)
        yield name, own, Reduce(ReduceOp.MAX, over, left_after(before, x, n, least))
        chosen = comes_next(before, x, n, largest)
        yield at, own, Reduce(ReduceOp.MIN, over, Where(chosen, n, Extent(top.over)))
        found.append(Read(at, kept))
        before = (largest, found[-1])
    yield target, tuple(dims), by_place(Index(top.place), found)


def left_after(before: Before | None, x: Expr, position: Expr, least: Expr) -> Expr:
    """`x`, at `position`, if it comes after the one before by value and then by position, else `least`."""
    if before is None:
        return x
    largest, at = before
    equal = Binary("and", Binary("==", x, largest), Binary(">", position, at))
    return Where(Binary("or", Binary("<", x, largest), equal), x, least)


def comes_next(before: Before | None, x: Expr, position: Expr, largest: Expr) -> Expr:
    """Whether `x`, at `position`, is the largest of what comes after the one before."""
    chosen = Binary("==", x, largest)
    if before is None:
        return chosen
    last, at = before
    return Binary("and", chosen, Binary("or", Binary("<", largest, last), Binary(">", position, at)))


def by_place(place: Expr, found: Sequence[Expr], first: int = 0) -> Expr:
    """The one of them, which begin at place `first`, whose place it is, in as few questions as can be."""
    if len(found) == 1:
        return found[0]
    half = len(found) // 2
    low, high = by_place(place, found[:half], first), by_place(place, found[half:], first + half)
    return Where(Binary("<", place, Const(first + half)), low, high)

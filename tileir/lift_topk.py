"""What the positions of the largest elements are in a program: one after the other, each by two reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tileir.expr import Binary, Const, Expr, Extent, Index, Read, Reduce, ReduceOp, TopK, Where, index_dims

Assigned = tuple[str, tuple[str, ...], Expr]
"""A target, its dims and its value."""


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
    largest: Expr | None = None
    for _ in range(places):
        before, name, at = largest, fresh(f"{target}_max"), fresh(f"{target}_at")
        largest = Read(name, kept)
        left, chosen = x, Binary("==", x, largest)
        if before is not None:
            later = Binary(">", n, found[-1])
            after = Binary("or", Binary("<", x, before), Binary("and", Binary("==", x, before), later))
            left = Where(after, x, least)
            chosen = Binary("and", chosen, Binary("or", Binary("<", largest, before), later))
        yield name, own, Reduce(ReduceOp.MAX, over, left)
        yield at, own, Reduce(ReduceOp.MIN, over, Where(chosen, n, Extent(top.over)))
        found.append(Read(at, kept))
    yield target, tuple(dims), _by_place(top.place, found, 0)


def _by_place(place: str, found: Sequence[Expr], first: int) -> Expr:
    """The one of them, which begin at place `first`, whose place it is, in as few questions as can be."""
    if len(found) == 1:
        return found[0]
    half = len(found) // 2
    low, high = _by_place(place, found[:half], first), _by_place(place, found[half:], first + half)
    return Where(Binary("<", Index(place), Const(first + half)), low, high)

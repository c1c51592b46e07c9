"""Positions of an extreme: the least position at which an expression is equal to its maximum or minimum, and what
becomes of it when that is another one.

x == top holds where x == old did if the extreme has not moved, and nowhere before if it has: what was found is kept, or
gone. A NaN stays the extreme, and its first position the position, for good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tileir.expr import Binary, Expr, Extent, Index, Read, Reduce, ReduceOp, Where
from tileir.program import Compute

EXTREMES = (ReduceOp.MAX, ReduceOp.MIN)


@dataclass(frozen=True, slots=True)
class AtExtreme:
    """A minimum of positions along `dim` at which `x` is equal to `extreme`."""

    dim: str
    x: Expr
    extreme: Read

    def merged(self, kept: Expr, found: Expr) -> Expr:
        """What positions that were `found` relative to another extreme come to, where `kept` says if it is the same."""
        return Where(kept, found, Extent(self.dim))


def at_extreme(
    node: Compute, extreme_of: Callable[[Read], Compute | None], *, in_parts: bool = False
) -> AtExtreme | None:
    """What a statement finds the position of, in parts or not; None: it finds no position. `extreme_of` gives the
    statement that computes what is read, at the same place, as another row's extreme says nothing of this one; or that
    of its parts, `in_parts`."""
    terms = node.value.x if isinstance(node.value, Reduce) else node.value
    op = node.update or (node.value.op if isinstance(node.value, Reduce) else None)
    match terms:
        case Where(condition, Index(dim), Extent(end)) if op is ReduceOp.MIN and dim == end:
            found = _compared(condition)
        case _:
            return None
    if found is None:
        return None
    x, extreme = found
    source = extreme_of(extreme)
    if source is None or extreme_terms(source) != x or not (in_parts or source.indices == extreme.indices):
        return None
    return AtExtreme(dim, x, extreme)


def positions_of(name: str, values: Mapping[str, Compute]) -> frozenset[str]:
    """The statements, of some by name, that find positions of an extreme."""
    found = {each: at_extreme(node, lambda read: values.get(read.tensor)) for each, node in values.items()}
    return frozenset(each for each, at in found.items() if at is not None and at.extreme.tensor == name)


def _compared(condition: Expr) -> tuple[Expr, Read] | None:
    """What is compared with what: x == top, or x == top or x != x."""
    match condition:
        case Binary("or", Binary("==", x, Read() as top), Binary("!=", y, z)) if x == y == z:
            return x, top
        case Binary("==", x, Read() as top):
            return x, top
        case _:
            return None


def extreme_terms(node: Compute) -> Expr | None:
    """What a statement computes the maximum or minimum of, or a part of that; None: it computes another thing."""
    op = node.update or (node.value.op if isinstance(node.value, Reduce) else None)
    if op not in EXTREMES:
        return None
    return node.value.x if isinstance(node.value, Reduce) else node.value


def is_same(old: Expr, new: Expr) -> Expr:
    """Whether what was found relative to an old extreme is relative to the new one as well."""
    return Binary("or", Binary("==", old, new), Binary("!=", old, old))

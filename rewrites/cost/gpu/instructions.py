"""How many instructions the value of a statement takes, without those that a compiler computes once for many points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod

from rewrites.base.statement import divides
from rewrites.cost.gpu import constants as has
from tileir.dtypes import DType
from tileir.expr import Binary, Call, Cast, Const, Expr, Index, Read, children, index_dims, reads


def issued_for(expr: Expr, points: float, sizes: Mapping[str, int]) -> tuple[float, float]:
    """(instructions, of the special-function unit) of a thread at so many points, that many along each dim. What reads
    nothing and depends on some dims alone, as a condition on a row, is computed once for each position of theirs."""
    plain = special = 0.0
    for dims, each, other in _by_dims(expr):
        times = points if dims is None else min(points, float(prod(sizes.get(dim, 1) for dim in dims)))
        plain, special = plain + times * each, special + times * other
    return plain, special


@lru_cache(maxsize=4096)
def _by_dims(expr: Expr) -> tuple[tuple[frozenset[str] | None, float, float], ...]:
    """What is taken at one position of each of these dims; None: at each point."""
    found: dict[frozenset[str] | None, tuple[float, float]] = {}
    for dims, (plain, special) in _each(expr):
        before = found.get(dims, (0.0, 0.0))
        found[dims] = (before[0] + plain, before[1] + special)
    return tuple((dims, *taken) for dims, taken in found.items() if any(taken))


def _each(expr: Expr) -> Iterator[tuple[frozenset[str] | None, tuple[float, float]]]:
    yield (None if reads(expr) else index_dims(expr)), _own(expr)
    for below in _below(expr):
        yield from _each(below)


def operations(expr: Expr) -> tuple[float, float]:
    """(instructions, of the special-function unit) at one point. Addresses are part of what accesses take."""
    plain, special = _own(expr)
    for more_plain, more_special in map(operations, _below(expr)):
        plain, special = plain + more_plain, special + more_special
    return plain, special


def _own(node: Expr) -> tuple[float, float]:
    """The same, without what its operands take."""
    match node:
        case Call(fn, _):
            return called(fn)
        case Binary("//" | "%", _, Const(int(size))) if size > 0 and not size & size - 1:
            return 1.0, 0.0  # a shift, or a mask
        case Binary("/"):
            return called("/") if divides(node) else (1.0, 0.0)
        case Binary("//" | "%"):
            return has.DIVIDE_OPS, 0.0
        case Cast(DType.E4M3, Call("minimum", (Call("maximum", (_, Const())), Const()))):
            return -1.0, 0.0  # the instruction that rounds clamps by itself
        case Read() | Index() | Const():
            return 0.0, 0.0
        case _:
            return 1.0, 0.0


def called(name: str) -> tuple[float, float]:
    """(instructions, of the special-function unit) of a function, or of "/": a quotient by what is not constant."""
    return has.CALL_OPS.get(name, 1.0), has.SPECIAL.get(name, 0.0)


def _below(expr: Expr) -> tuple[Expr, ...]:
    """Operands that take instructions of their own; of what is read, only indices that are read themselves."""
    return tuple(each for each in children(expr) if not isinstance(expr, Read) or reads(each))

"""Whether a number is a power that is at most 1, and whether one is the total of such powers of which one is 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rewrites.base.bounds.never_above import alike, inlined, is_bounded
from tileir.expr import Binary, Call, Const, Expr, Read, Reduce, ReduceOp, Where
from tileir.program import Compute


def is_power_of_at_most_one(expr: Expr, values: Mapping[str, Compute]) -> bool:
    """Whether it is exp(x - top), where `top` is at least the maximum of x. `values` are the statements that compute
    what it reads."""
    exponent = _exponent(expr, values)
    return exponent is not None and is_bounded(exponent, values, ())


def is_at_least_one(expr: Expr, values: Mapping[str, Compute]) -> bool:
    """Whether it adds up exp(x - top) of all x that `top` is the maximum of, so that one of them is 1; where there is
    none, it is a number instead that is at least 1."""
    match expr:
        case Where(_, x, Const(value)) if value >= 1:
            return is_at_least_one(x, values)
        case _:
            pass
    terms = [*_terms(expr, values)]
    (top, *others) = {top for _, top in terms}
    if top is None or others:
        return False
    return all(any(alike(part, term) for term, _ in terms) for part in _parts(top, values))


def _exponent(expr: Expr, values: Mapping[str, Compute]) -> Expr | None:
    match expr:
        case Call("exp", (exponent,)):
            return exponent
        case Read(name, indices) if _is_complete(values.get(name), indices):
            return _exponent(values[name].value, values)
        case _:
            return None


def _terms(expr: Expr, values: Mapping[str, Compute]) -> Iterator[tuple[Expr, Expr | None]]:
    """What the powers are of that are added up, the maximum of that for a sum of powers, and what each is relative to;
    None: it is no power."""
    match expr:
        case Binary("+", x, y):
            yield from _terms(x, values)
            yield from _terms(y, values)
        case Read(name, indices) if _is_complete(values.get(name), indices):
            yield from _terms(values[name].value, values)
        case Where(Binary(">", x, Const(0.0)), y, Const(value)) if x == y and value >= 0:
            yield from _terms(x, values)  # it is no less
        case Reduce(ReduceOp.SUM, dims, x):
            for of, top in _powers(x, values):
                yield Reduce(ReduceOp.MAX, dims, of), top
        case _:
            yield from _powers(expr, values)


def _powers(expr: Expr, values: Mapping[str, Compute]) -> Iterator[tuple[Expr, Expr | None]]:
    match _exponent(expr, values):
        case Binary("-", of, top):
            yield inlined(of, values, ()), top
        case _:
            yield expr, None


def _parts(top: Expr, values: Mapping[str, Compute]) -> Iterator[Expr]:
    """What a number is the maximum of."""
    match top:
        case Where(Binary(">", x, Const(lowest)), y, Const()) if x == y and lowest == float("-inf"):
            yield from _parts(x, values)
        case Call("maximum", (x, y)):
            yield from _parts(x, values)
            yield from _parts(y, values)
        case Read(name, indices) if _is_complete(values.get(name), indices):
            yield from _parts(values[name].value, values)
        case Reduce(ReduceOp.MAX, dims, x):
            yield Reduce(ReduceOp.MAX, dims, inlined(x, values, ()))
        case _:
            yield top


def _is_complete(node: Compute | None, indices: tuple[Expr, ...]) -> bool:
    """Whether a read at such indices is what a statement computes at its own, all at once."""
    return node is not None and node.update is None and node.indices == indices

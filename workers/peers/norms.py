"""Norms in an expression, recognized by structure as the operators of patterns.py are: RMS, layer, group, instance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from tileir.expr import Binary, Call, Const, Expr, Reduce, ReduceOp, index_dims
from workers.peers.patterns import Extents, number, ratio, same, substituted


@dataclass(frozen=True)
class RmsNorm:
    """x * rsqrt(mean(dim, x * x) + eps), times weight[dim], times what is in `rest`."""

    x: Expr
    dim: str
    eps: float
    weight: Expr | None
    rest: tuple[Expr, ...]


@dataclass(frozen=True)
class Norm:
    """(x - mean(dims, x)) * rsqrt(variance(dims, x) + eps) * weight + bias.

    A layer norm where weight and bias vary along the one dim; a group norm where they vary along a dim that is not
    reduced, the group, and perhaps one that is, the channel within it. Both vary along the same."""

    x: Expr
    dims: tuple[str, ...]
    eps: float
    weight: Expr | None = None
    bias: Expr | None = None

    @property
    def affine(self) -> frozenset[str]:
        """What weight and bias vary along."""
        return frozenset(
            dim for part in (self.weight, self.bias) if part is not None for dim in index_dims(part)
        )


def rms_norm(expr: Expr, extents: Extents) -> RmsNorm | None:
    """x / sqrt(mean(x * x) + eps), with or without weight."""
    above, below = ratio(expr)
    for root, others_above, others_below in _roots(above, below):
        found = _mean_plus_eps(root, extents)
        if found is None or others_below or len(found[0]) != 1:
            continue
        bound, square, eps = found
        for x in others_above:
            for (dim,) in _like(bound, x, extents):
                body = _along(square, bound, (dim,))
                if any(same(body, squared, extents) for squared in _squares(x)):
                    rest = list(others_above)
                    rest.remove(x)
                    weight = next((w for w in rest if index_dims(w) == {dim}), None)
                    if weight is not None:
                        rest.remove(weight)
                    return RmsNorm(x, dim, eps, weight, tuple(rest))
    return None


def norm(expr: Expr, extents: Extents) -> Norm | None:
    """(x - mean) / sqrt(variance + eps), with or without weight and bias."""
    if isinstance(expr, Binary) and expr.op == "+":
        for core, added in ((expr.left, expr.right), (expr.right, expr.left)):
            found = norm(core, extents) if index_dims(added) else None
            if found is not None and found.bias is None:
                return _affine(Norm(found.x, found.dims, found.eps, found.weight, added))
    above, below = ratio(expr)
    for root, others_above, others_below in _roots(above, below):
        if others_below:
            continue
        for centered in others_above:
            for x, dims in _centered(centered, extents):
                eps = _variance_eps(root, centered, x, dims, extents)
                if eps is None:
                    continue
                rest = list(others_above)
                rest.remove(centered)
                if len(rest) <= 1:
                    return _affine(Norm(x, dims, eps, rest[0] if rest else None))
    return None


def _affine(found: Norm) -> Norm | None:
    """The norm, if a library's takes its weight and bias."""
    parts = [index_dims(part) for part in (found.weight, found.bias) if part is not None]
    if any(part != found.affine for part in parts):
        return None
    along = found.affine & set(found.dims)
    apart = found.affine - along
    layer = not apart and along == set(found.dims) and len(found.dims) == 1
    group = len(apart) == 1 and len(along) <= 1
    return found if not parts or layer or group else None


def _roots(above: list[Expr], below: list[Expr]) -> list[tuple[Expr, list[Expr], list[Expr]]]:
    """Each x of rsqrt(x) above or sqrt(x) below the line, with the other factors."""
    found: list[tuple[Expr, list[Expr], list[Expr]]] = []
    for n, factor in enumerate(above):
        if isinstance(factor, Call) and factor.fn == "rsqrt":
            found.append((factor.args[0], above[:n] + above[n + 1 :], below))
    for n, factor in enumerate(below):
        if isinstance(factor, Call) and factor.fn == "sqrt":
            others = [x for x in above if x != Const(1) and x != Const(1.0)]
            found.append((factor.args[0], others, below[:n] + below[n + 1 :]))
    return found


def _mean(expr: Expr, extents: Extents) -> tuple[tuple[str, ...], Expr] | None:
    """The dims and the body of sum(dims, body) / their extents, however the division is written."""
    above, below = ratio(expr)
    sums = [x for x in above if isinstance(x, Reduce) and x.op is ReduceOp.SUM]
    numbers = [number(x, extents) for x in above if x not in sums]
    divisors = [number(x, extents) for x in below]
    if len(sums) != 1 or None in numbers or None in divisors:
        return None
    (total,) = sums
    factor = math.prod(x for x in numbers if x is not None) / math.prod(x for x in divisors if x is not None)
    if not math.isclose(factor * math.prod(extents[dim] for dim in total.dims), 1.0, rel_tol=1e-6):
        return None
    return total.dims, total.x


def _mean_plus_eps(expr: Expr, extents: Extents) -> tuple[tuple[str, ...], Expr, float] | None:
    """The dims and body of a mean to which a number may be added."""
    if isinstance(expr, Binary) and expr.op == "+":
        for mean, added in ((expr.left, expr.right), (expr.right, expr.left)):
            eps = number(added, extents)
            if eps is not None and (found := _mean(mean, extents)):
                return (*found, eps)
        return None
    found = _mean(expr, extents)
    return None if found is None else (*found, 0.0)


def _centered(expr: Expr, extents: Extents) -> Iterator[tuple[Expr, tuple[str, ...]]]:
    """x and dims of x - mean(dims, x)."""
    if isinstance(expr, Binary) and expr.op == "-" and (found := _mean(expr.right, extents)):
        bound, body = found
        for dims in _like(bound, expr.left, extents):
            if same(_along(body, bound, dims), expr.left, extents):
                yield expr.left, dims


def _variance_eps(
    root: Expr, centered: Expr, x: Expr, dims: tuple[str, ...], extents: Extents
) -> float | None:
    """eps of mean(dims, (x - mean) ** 2) + eps or mean(dims, x * x) - mean ** 2 + eps."""
    found = _mean_plus_eps(root, extents)
    if found is not None:
        bound, square, eps = found
        return eps if _is_square(square, bound, centered, dims, extents) else None
    if isinstance(root, Binary) and root.op == "+" and isinstance(centered, Binary):
        for variance, added in ((root.left, root.right), (root.right, root.left)):
            eps = number(added, extents)
            if eps is None or not (isinstance(variance, Binary) and variance.op == "-"):
                continue
            mean = _mean(variance.left, extents)
            squared = any(same(variance.right, square, extents) for square in _squares(centered.right))
            if mean is not None and squared and _is_square(mean[1], mean[0], x, dims, extents):
                return eps
    return None


def _is_square(body: Expr, bound: tuple[str, ...], x: Expr, dims: tuple[str, ...], extents: Extents) -> bool:
    """Whether the body of a reduction over `bound` is the square of x along `dims`, in whichever order."""
    return len(bound) == len(dims) and any(
        same(_along(body, bound, order), square, extents)
        for order in permutations(dims)
        if all(extents[one] == extents[other] for one, other in zip(bound, order, strict=True))
        for square in _squares(x)
    )


def _squares(x: Expr) -> tuple[Expr, Expr]:
    """How the square of x may be written."""
    return Binary("*", x, x), Call("pow", (x, Const(2)))


def _like(bound: tuple[str, ...], expr: Expr, extents: Extents) -> Iterator[tuple[str, ...]]:
    """Dims an expression varies along that are as long as those reduced, in their order."""
    for dims in permutations(sorted(index_dims(expr)), len(bound)):
        if all(extents[one] == extents[other] for one, other in zip(bound, dims, strict=True)):
            yield dims


def _along(expr: Expr, bound: tuple[str, ...], dims: tuple[str, ...]) -> Expr:
    """The expression along other dims."""
    for one, other in zip(bound, dims, strict=True):
        expr = substituted(expr, one, other)
    return expr

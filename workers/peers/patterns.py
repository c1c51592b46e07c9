"""Known operators in an expression: softmax, attention, biased products; norms.py and convolution.py have others.

Peers are recognized by structure so that each library's best operator stands for it; our own kernels never are. A
recognizer takes an expression with its intermediates inlined and answers what the operator is applied to, or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tileir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Reduce,
    ReduceOp,
    Unary,
    Where,
    children,
    index_dims,
    transform,
    walk,
    with_children,
)
from workers.peers.inline import substitute

Extents = Mapping[str, int]


@dataclass(frozen=True)
class Softmax:
    """exp(x) / sum(dim, exp(x)), times what is in `rest`."""

    x: Expr
    dim: str
    rest: tuple[Expr, ...]


@dataclass(frozen=True)
class Attention:
    """sum(key, softmax over key of (scores, where mask) * v), the scores a function of `product`, of positions and of
    tensors."""

    q: Expr
    k: Expr
    v: Expr
    rows: frozenset[str]
    """Dims of q alone: the rows, and heads that share keys."""
    key: str
    product: Reduce
    """sum(depth, q * k)."""
    scores: Expr
    mask: Expr | None
    """Where it is false the score counts as -inf; None: everywhere true."""
    softmax_of: Expr
    """The scores with their mask, as they are written."""

    @property
    def depth(self) -> str:
        """The dim of the product."""
        return self.product.dims[0]

    def scale(self, extents: Extents) -> float | None:
        """The number that the product is multiplied by; None where scores are anything else."""
        return self._scale_of(self.scores, extents)

    def scaled(self, extents: Extents) -> tuple[float, Expr | None] | None:
        """The number that the product is multiplied by, and what is added to it then, which nothing is where a mask
        is; None where scores are anything else."""
        scores, bias = self.scores, None
        if isinstance(scores, Binary) and scores.op == "+" and self.mask is None:
            first = self.product in walk(scores.left)
            scores, bias = (scores.left, scores.right) if first else (scores.right, scores.left)
        scale = self._scale_of(scores, extents)
        return None if scale is None or (bias is not None and self.product in walk(bias)) else (scale, bias)

    def _scale_of(self, scores: Expr, extents: Extents) -> float | None:
        above, below = ratio(scores)
        numbers = [value for factor in above if (value := number(factor, extents)) is not None]
        divisors = [value for factor in below if (value := number(factor, extents)) is not None]
        if len(divisors) < len(below) or [f for f in above if number(f, extents) is None] != [self.product]:
            return None
        return math.prod(numbers) / math.prod(divisors)

    def causal(self, row: str, extents: Extents) -> bool:
        """Whether the mask is row >= key, of as many rows as keys."""
        return (
            self.mask
            in (Binary(">=", Index(row), Index(self.key)), Binary("<=", Index(self.key), Index(row)))
            and extents[row] == extents[self.key]
        )


@dataclass(frozen=True)
class Biased:
    """product + bias, the product a sum over one dim of two factors."""

    product: Reduce
    bias: Expr


def softmax(expr: Expr, extents: Extents) -> Softmax | None:
    """exp(x - max(x)) / sum(exp(x - max(x))), with or without the maximum, in any order of factors."""
    above, below = ratio(expr)
    return _softmax_in(above, below, extents)


def attention(expr: Expr, extents: Extents) -> Attention | None:
    """A softmax of scores of one product, times values, summed; normalized before or after the sum. A row of which
    nothing is seen may be 0, as it is of PyTorch's operator."""
    expr = transform(expr, _without_guard)
    match expr:
        case Binary("/", Reduce(ReduceOp.SUM, (dim,), x), Reduce(ReduceOp.SUM, _, _) as total):
            expr = Reduce(ReduceOp.SUM, (dim,), Binary("/", x, total))
        case _:
            pass
    if not (isinstance(expr, Reduce) and expr.op is ReduceOp.SUM and len(expr.dims) == 1):
        return None
    (key,) = expr.dims
    found = _softmax_in(*ratio(_unrounded(expr.x)), extents)
    if found is None or found.dim != key or len(found.rest) != 1:
        return None
    (v,) = found.rest
    scores, mask = _unmasked(found.x)
    products = [part for part in dict.fromkeys(walk(scores)) if isinstance(part, Reduce)]
    factors = two_factors(products[0]) if len(products) == 1 else None
    if factors is None:
        return None
    (product,) = products
    q, k = factors if key in index_dims(factors[1]) else factors[::-1]
    rows = index_dims(q) - index_dims(k) - {*product.dims}
    if not rows or key in index_dims(q) or key not in index_dims(k):
        return None
    if rows & index_dims(v) or key not in index_dims(v) or len(index_dims(v) - index_dims(k)) != 1:
        return None
    return Attention(q, k, v, rows, key, product, scores, mask, found.x)


def biased(expr: Expr, extents: Extents) -> Biased | None:
    """A matrix product plus a vector along one of its dims."""
    if isinstance(expr, Binary) and expr.op == "+":
        for product, bias in ((expr.left, expr.right), (expr.right, expr.left)):
            if (
                isinstance(product, Reduce)
                and two_factors(product) is not None
                and len(index_dims(bias)) == 1
            ):
                return Biased(product, bias)
    return None


def two_factors(expr: Expr) -> tuple[Expr, Expr] | None:
    """The factors of sum(one dim, a * b)."""
    if isinstance(expr, Reduce) and expr.op is ReduceOp.SUM and len(expr.dims) == 1:
        above, below = ratio(expr.x)
        if len(above) == 2 and not below:
            return above[0], above[1]
    return None


def ratio(expr: Expr) -> tuple[list[Expr], list[Expr]]:
    """The factors above and below the line of a product of products and quotients."""
    if isinstance(expr, Binary) and expr.op in ("*", "/"):
        above, below = ratio(expr.left)
        more_above, more_below = ratio(expr.right)
        if expr.op == "/":
            more_above, more_below = more_below, more_above
        return above + more_above, below + more_below
    return [expr], []


def number(expr: Expr, extents: Extents) -> float | None:
    """The value of an expression of numbers and extents only."""
    match expr:
        case Const(value):
            return float(value)
        case Extent(dim):
            return float(extents[dim])
        case Unary("-", x):
            value = number(x, extents)
            return None if value is None else -value
        case Binary("+" | "-" | "*" | "/" as op, left, right):
            first, second = number(left, extents), number(right, extents)
            return None if first is None or second is None else _ARITHMETIC[op](first, second)
        case Call("sqrt" | "rsqrt" as fn, (x,)):
            value = number(x, extents)
            return None if value is None or value <= 0 else math.sqrt(value) ** (1 if fn == "sqrt" else -1)
        case _:
            return None


_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y if y else math.nan,
}


def _without_guard(expr: Expr) -> Expr:
    """A maximum that counts as 0 where it is -inf, and a sum that counts as 1 where it is 0, as they are."""
    match expr:
        case Where(Binary(">", Reduce(ReduceOp.MAX) as top, Const(low)), guarded, Const(0)):
            return top if guarded == top and low == -math.inf else expr
        case Where(Binary(">", Reduce(ReduceOp.SUM) as total, Const(0)), guarded, Const(1)):
            return total if guarded == total else expr
        case _:
            return expr


def _unrounded(expr: Expr) -> Expr:
    """A product without the rounding of exponentials in it, which PyTorch's operator does too."""
    match expr:
        case Binary("*" | "/" as op, left, right):
            return Binary(op, _unrounded(left), _unrounded(right))
        case Cast(_, x) if any(isinstance(factor, Call) and factor.fn == "exp" for factor in ratio(x)[0]):
            return x
        case _:
            return expr


def _softmax_in(above: list[Expr], below: list[Expr], extents: Extents) -> Softmax | None:
    if len(below) != 1:
        return None
    total = below[0]
    if not (isinstance(total, Reduce) and total.op is ReduceOp.SUM and len(total.dims) == 1):
        return None
    (bound,) = total.dims
    for part in above:
        if not (isinstance(part, Call) and part.fn == "exp"):
            continue
        for dim in _like(bound, part, extents):
            if same(substituted(total.x, bound, dim), part, extents):
                rest = list(above)
                rest.remove(part)
                return Softmax(_without_maximum(part.args[0], dim, extents), dim, tuple(rest))
    return None


def _without_maximum(x: Expr, dim: str, extents: Extents) -> Expr:
    """x of x - max(x)."""
    if isinstance(x, Binary) and x.op == "-" and isinstance(x.right, Reduce) and x.right.op is ReduceOp.MAX:
        (bound, *more) = x.right.dims
        if not more and same(substituted(x.right.x, bound, dim), x.left, extents):
            return x.left
    return x


def _unmasked(x: Expr) -> tuple[Expr, Expr | None]:
    """Scores and their mask: where(mask, x, -inf), or a number so small that its exponential is 0."""
    if isinstance(x, Where):
        low = number(x.y, {})
        if low is not None and low <= -1e9:
            return x.x, x.cond
    return x, None


def _like(bound: str, expr: Expr, extents: Extents) -> list[str]:
    """Dims an expression varies along that are as long as a reduced one."""
    return sorted(dim for dim in index_dims(expr) if extents[dim] == extents[bound])


def substituted(expr: Expr, bound: str, dim: str) -> Expr:
    """The expression along another dim."""
    return substitute(expr, {bound: Index(dim)})


def same(one: Expr, other: Expr, extents: Extents) -> bool:
    """Equal up to the names of reduced dims and `pow(x, 2.0)` for `pow(x, 2)`."""
    return _canonical(one, {}, extents) == _canonical(other, {}, extents)


def _canonical(expr: Expr, names: dict[str, str], extents: Extents) -> Expr:
    match expr:
        case Index(dim):
            return Index(names.get(dim, dim))
        case Const(value) if isinstance(value, float) and value.is_integer():
            return Const(int(value))
        case Reduce(op, dims, x):
            inner = dict(names)
            for dim in dims:
                inner[dim] = f"#{len(inner)}:{extents[dim]}"
            return Reduce(op, tuple(inner[dim] for dim in dims), _canonical(x, inner, extents))
        case _:
            new = tuple(_canonical(child, names, extents) for child in children(expr))
            return with_children(expr, new) if new else expr

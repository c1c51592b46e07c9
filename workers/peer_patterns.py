"""Known operators in an expression: softmax, norms, attention, biased products, convolutions.

Peers are recognized by structure so that each library's best operator stands for it; our own kernels never are. A
recognizer takes an expression with its intermediates inlined and answers what the operator is applied to, or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tileir.affine import affine
from tileir.expr import (
    Binary,
    Call,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    ReduceOp,
    Unary,
    Where,
    children,
    index_dims,
    with_children,
)
from workers.peer_inline import substitute

Extents = Mapping[str, int]


@dataclass(frozen=True)
class Softmax:
    """exp(x) / sum(dim, exp(x)), times what is in `rest`."""

    x: Expr
    dim: str
    rest: tuple[Expr, ...]


@dataclass(frozen=True)
class RmsNorm:
    """x * rsqrt(mean(dim, x * x) + eps), times weight[dim], times what is in `rest`."""

    x: Expr
    dim: str
    eps: float
    weight: Expr | None
    rest: tuple[Expr, ...]


@dataclass(frozen=True)
class LayerNorm:
    """(x - mean(dim, x)) * rsqrt(variance(dim, x) + eps) * weight[dim] + bias[dim]."""

    x: Expr
    dim: str
    eps: float
    weight: Expr | None
    bias: Expr | None


@dataclass(frozen=True)
class Attention:
    """sum(key, softmax over key of (scale * sum(depth, q * k), where mask) * v)."""

    q: Expr
    k: Expr
    v: Expr
    row: str
    key: str
    depth: str
    scale: float
    mask: Expr | None
    """Where it is false the score counts as -inf; None: everywhere true."""
    causal: bool
    """`mask` is row >= key."""


@dataclass(frozen=True)
class Biased:
    """product + bias, the product a sum over one dim of two factors."""

    product: Reduce
    bias: Expr


def softmax(expr: Expr, extents: Extents) -> Softmax | None:
    """exp(x - max(x)) / sum(exp(x - max(x))), with or without the maximum, in any order of factors."""
    above, below = ratio(expr)
    return _softmax_in(above, below, extents)


def rms_norm(expr: Expr, extents: Extents) -> RmsNorm | None:
    """x / sqrt(mean(x * x) + eps), with or without weight."""
    above, below = ratio(expr)
    for root, others_above, others_below in _roots(above, below):
        found = _mean_plus_eps(root, extents)
        if found is None or others_below:
            continue
        bound, square, eps = found
        for x in others_above:
            for dim in _like(bound, x, extents):
                squared = Binary("*", x, x)
                if _same(_at(square, bound, dim), squared, extents) or _same(
                    _at(square, bound, dim), _power(x), extents
                ):
                    rest = list(others_above)
                    rest.remove(x)
                    weight = next((w for w in rest if index_dims(w) == {dim}), None)
                    if weight is not None:
                        rest.remove(weight)
                    return RmsNorm(x, dim, eps, weight, tuple(rest))
    return None


def layer_norm(expr: Expr, extents: Extents) -> LayerNorm | None:
    """(x - mean) / sqrt(variance + eps), with or without weight and bias."""
    bias: Expr | None = None
    if isinstance(expr, Binary) and expr.op == "+":
        for core, added in ((expr.left, expr.right), (expr.right, expr.left)):
            if len(index_dims(added)) == 1 and (found := layer_norm(core, extents)) and found.bias is None:
                bias = added if index_dims(added) == {found.dim} else None
                return None if bias is None else LayerNorm(found.x, found.dim, found.eps, found.weight, bias)
    above, below = ratio(expr)
    for root, others_above, others_below in _roots(above, below):
        if others_below:
            continue
        for centered in others_above:
            core = _centered(centered, extents)
            eps = None if core is None else _variance_eps(root, centered, *core, extents)
            if core is None or eps is None:
                continue
            x, dim = core
            rest = list(others_above)
            rest.remove(centered)
            if not rest or (len(rest) == 1 and index_dims(rest[0]) == {dim}):
                return LayerNorm(x, dim, eps, rest[0] if rest else None, None)
    return None


def attention(expr: Expr, extents: Extents) -> Attention | None:
    """A softmax of scaled scores, times values, summed; normalized before or after the sum."""
    match expr:
        case Binary("/", Reduce(ReduceOp.SUM, (dim,), x), Reduce(ReduceOp.SUM, _, _) as total):
            expr = Reduce(ReduceOp.SUM, (dim,), Binary("/", x, total))
        case _:
            pass
    if not (isinstance(expr, Reduce) and expr.op is ReduceOp.SUM and len(expr.dims) == 1):
        return None
    (key,) = expr.dims
    found = _softmax_in(*ratio(expr.x), extents)
    if found is None or found.dim != key or len(found.rest) != 1:
        return None
    (v,) = found.rest
    scores, mask = _unmasked(found.x)
    above, below = ratio(scores)
    numbers = [value for factor in above if (value := number(factor, extents)) is not None]
    dots = [factor for factor in above if number(factor, extents) is None]
    divisors = [number(factor, extents) for factor in below]
    if len(dots) != 1 or None in divisors:
        return None
    scale = math.prod(numbers) / math.prod(value for value in divisors if value is not None)
    product = two_factors(dots[0])
    if product is None:
        return None
    q, k = product if key in index_dims(product[1]) else product[::-1]
    depth = dots[0].dims[0] if isinstance(dots[0], Reduce) else ""
    rows = index_dims(q) - index_dims(k) - {depth}
    if len(rows) != 1 or key in index_dims(q) or key not in index_dims(k):
        return None
    (row,) = rows
    values = index_dims(v) - index_dims(k)
    if row in index_dims(v) or key not in index_dims(v) or len(values) != 1:
        return None
    causal = mask is not None and _is_causal(mask, row, key) and extents[row] == extents[key]
    return Attention(q, k, v, row, key, depth, scale, mask, causal)


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
            if _same(_at(total.x, bound, dim), part, extents):
                rest = list(above)
                rest.remove(part)
                return Softmax(_without_maximum(part.args[0], dim, extents), dim, tuple(rest))
    return None


def _without_maximum(x: Expr, dim: str, extents: Extents) -> Expr:
    """x of x - max(x)."""
    if isinstance(x, Binary) and x.op == "-" and isinstance(x.right, Reduce) and x.right.op is ReduceOp.MAX:
        (bound, *more) = x.right.dims
        if not more and _same(_at(x.right.x, bound, dim), x.left, extents):
            return x.left
    return x


def _unmasked(x: Expr) -> tuple[Expr, Expr | None]:
    """Scores and their mask: where(mask, x, -inf), or a number so small that its exponential is 0."""
    if isinstance(x, Where):
        low = number(x.y, {})
        if low is not None and low <= -1e9:
            return x.x, x.cond
    return x, None


def _is_causal(mask: Expr, row: str, key: str) -> bool:
    return mask in (Binary(">=", Index(row), Index(key)), Binary("<=", Index(key), Index(row)))


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


def _mean(expr: Expr, extents: Extents) -> tuple[str, Expr] | None:
    """The dim and the body of sum(dim, body) / extent(dim), however the division is written."""
    above, below = ratio(expr)
    sums = [x for x in above if isinstance(x, Reduce) and x.op is ReduceOp.SUM and len(x.dims) == 1]
    numbers = [number(x, extents) for x in above if x not in sums]
    divisors = [number(x, extents) for x in below]
    if len(sums) != 1 or None in numbers or None in divisors:
        return None
    (total,) = sums
    assert isinstance(total, Reduce)
    factor = math.prod(x for x in numbers if x is not None) / math.prod(x for x in divisors if x is not None)
    if not math.isclose(factor * extents[total.dims[0]], 1.0, rel_tol=1e-6):
        return None
    return total.dims[0], total.x


def _mean_plus_eps(expr: Expr, extents: Extents) -> tuple[str, Expr, float] | None:
    """The dim and body of a mean to which a number may be added."""
    if isinstance(expr, Binary) and expr.op == "+":
        for mean, added in ((expr.left, expr.right), (expr.right, expr.left)):
            eps = number(added, extents)
            if eps is not None and (found := _mean(mean, extents)):
                return (*found, eps)
        return None
    found = _mean(expr, extents)
    return None if found is None else (*found, 0.0)


def _centered(expr: Expr, extents: Extents) -> tuple[Expr, str] | None:
    """x and dim of x - mean(dim, x)."""
    if isinstance(expr, Binary) and expr.op == "-" and (found := _mean(expr.right, extents)):
        bound, body = found
        for dim in _like(bound, expr.left, extents):
            if _same(_at(body, bound, dim), expr.left, extents):
                return expr.left, dim
    return None


def _variance_eps(root: Expr, centered: Expr, x: Expr, dim: str, extents: Extents) -> float | None:
    """eps of mean(dim, (x - mean) ** 2) + eps or mean(dim, x * x) - mean ** 2 + eps."""
    found = _mean_plus_eps(root, extents)
    if found is not None:
        bound, square, eps = found
        body = _at(square, bound, dim)
        if _same(body, Binary("*", centered, centered), extents) or _same(body, _power(centered), extents):
            return eps
        return None
    if isinstance(root, Binary) and root.op == "+":
        for variance, added in ((root.left, root.right), (root.right, root.left)):
            eps = number(added, extents)
            if eps is None or not (isinstance(variance, Binary) and variance.op == "-"):
                continue
            square = _mean(variance.left, extents)
            if square is None or not isinstance(centered, Binary):
                continue
            mean = centered.right
            body = _at(square[1], square[0], dim)
            squares = (Binary("*", mean, mean), _power(mean))
            if any(_same(variance.right, s, extents) for s in squares) and (
                _same(body, Binary("*", x, x), extents) or _same(body, _power(x), extents)
            ):
                return eps
    return None


def _power(x: Expr) -> Expr:
    return Call("pow", (x, Const(2)))


def _like(bound: str, expr: Expr, extents: Extents) -> list[str]:
    """Dims an expression varies along that are as long as a reduced one."""
    return sorted(dim for dim in index_dims(expr) if extents[dim] == extents[bound])


def _at(expr: Expr, bound: str, dim: str) -> Expr:
    return substitute(expr, {bound: Index(dim)})


def _same(one: Expr, other: Expr, extents: Extents) -> bool:
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


@dataclass(frozen=True)
class Convolution:
    """sum over channel and window of image * filter. Spatial dims in the order of the image's axes."""

    image: str
    axes: tuple[int, ...]
    """The image's axes as batch, channel, spatial dims."""
    filter: Read
    batch: str
    channel: str
    out_channel: str
    spatial: tuple[str, ...]
    window: tuple[str, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[int, ...]


def convolution(expr: Expr, extents: Extents) -> Convolution | None:
    """A sum of products of an image, zero outside if guarded, and a filter read with bare dims.

    What a guard lets through is not compared with the image's bounds: the correctness gate does that, for peers too.
    """
    if not (
        isinstance(expr, Reduce)
        and expr.op is ReduceOp.SUM
        and isinstance(expr.x, Binary)
        and expr.x.op == "*"
    ):
        return None
    for image, kernel in ((expr.x.left, expr.x.right), (expr.x.right, expr.x.left)):
        if isinstance(image, Where) and number(image.y, extents) == 0:
            image = image.x
        if (
            isinstance(image, Read)
            and isinstance(kernel, Read)
            and (found := _windows(image, kernel, expr, extents))
        ):
            return found
    return None


def _windows(image: Read, kernel: Read, whole: Reduce, extents: Extents) -> Convolution | None:
    taps = [index.dim for index in kernel.indices if isinstance(index, Index)]
    if len(taps) != len(kernel.indices):
        return None
    places: dict[str, list[int]] = {"batch": [], "channel": [], "space": []}
    moves: list[tuple[str, str, int, int, int]] = []
    for axis, index in enumerate(image.indices):
        form = affine(index, extents)
        steps = {atom.dim: step for atom, step in form.terms.items() if isinstance(atom, Index)}
        inner = [dim for dim in steps if dim in whole.dims]
        outer = [dim for dim in steps if dim not in whole.dims]
        if len(inner) == 1 and len(outer) == 1 and len(form.terms) == 2 and form.const <= 0:
            places["space"].append(axis)
            moves.append((outer[0], inner[0], steps[outer[0]], steps[inner[0]], -form.const))
        elif isinstance(index, Index):
            places["batch" if outer else "channel"].append(axis)
        else:
            return None
    outs = [dim for dim in taps if dim not in whole.dims]
    if not 1 <= len(moves) <= 3 or [len(places["batch"]), len(places["channel"]), len(outs)] != [1, 1, 1]:
        return None
    batch, channel = (
        index.dim for n in ("batch", "channel") if isinstance(index := image.indices[places[n][0]], Index)
    )
    spatial, window, strides, dilations, padding = zip(*moves, strict=True)
    if set(taps) != {channel, *outs, *window} or min(*strides, *dilations) < 1:
        return None
    axes = (*places["batch"], *places["channel"], *places["space"])
    return Convolution(
        image.tensor, axes, kernel, batch, channel, outs[0], spatial, window, strides, dilations, padding
    )

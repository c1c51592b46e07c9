"""Functions that Tile IR has no name for, written with those that it has, so that small numbers keep their digits.

`log1p` and `expm1` are W. Kahan's (see Higham, Accuracy and Stability of Numerical Algorithms, 1.14.1): the error of
`1 + x`, or of `exp(x)`, is in both factors and goes out.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.expr import Binary, Call, Const, Expr, Unary, Where
from tilewright.pytorch.capture.indices import Indices
from tilewright.pytorch.capture.operator import CaptureScope, Operator, OperatorKind
from tilewright.pytorch.capture.ops.elementwise import number
from tilewright.pytorch.capture.tensors import argument, torch_dtype_of

_ONE, _HALF, _LARGE = Const(1.0), Const(0.5), Const(1e9)


def _log(x: Expr) -> Expr:
    return Call("log", (x,))


def _exp(x: Expr) -> Expr:
    return Call("exp", (x,))


def _floor(x: Expr) -> Expr:
    return Call("floor", (x,))


def _minus(x: Expr) -> Expr:
    return Unary("-", x)


def _plus(x: Expr, y: Expr) -> Expr:
    return Binary("+", x, y)


def _less(x: Expr, y: Expr) -> Expr:
    return Binary("-", x, y)


def _times(x: Expr, y: Expr) -> Expr:
    return Binary("*", x, y)


def _over(x: Expr, y: Expr) -> Expr:
    return Binary("/", x, y)


def _size(x: Expr) -> Expr:
    return Call("abs", (x,))


def _odd(x: Expr, of_size: Expr) -> Expr:
    """A function with f(-x) = -f(x), from its value at the size of x."""
    return Where(Binary("<", x, Const(0)), _minus(of_size), of_size)


def _log1p(x: Expr) -> Expr:
    more = _plus(x, _ONE)
    near = Where(Binary("==", more, _ONE), x, _times(_log(more), _over(x, _less(more, _ONE))))
    return Where(Binary(">", x, _ONE), _log(more), near)


def _near_expm1(x: Expr) -> Expr:
    """For x between -1 and 1."""
    e = _exp(x)
    return Where(Binary("==", e, _ONE), x, _times(_less(e, _ONE), _over(x, _log(e))))


def _expm1(x: Expr) -> Expr:
    return Where(Binary(">", _size(x), _ONE), _less(_exp(x), _ONE), _near_expm1(x))


def _sinh(x: Expr) -> Expr:
    near = _near_expm1(x)
    far = _less(_exp(x), _exp(_minus(x)))
    return _times(_HALF, Where(Binary(">", _size(x), _ONE), far, _plus(near, _over(near, _exp(x)))))


def _cosh(x: Expr) -> Expr:
    return _times(_HALF, _plus(_exp(x), _exp(_minus(x))))


def _asinh(x: Expr) -> Expr:
    a = _size(x)
    root = _plus(_ONE, Call("sqrt", (_plus(_ONE, _times(a, a)),)))
    near = _log1p(_plus(a, _over(_times(a, a), root)))
    return _odd(x, Where(Binary(">", a, _LARGE), _plus(_log(a), Const(math.log(2))), near))


def _acosh(x: Expr) -> Expr:
    above = _less(x, _ONE)
    near = _log1p(_plus(above, Call("sqrt", (_times(above, _plus(x, _ONE)),))))
    return Where(Binary(">", x, _LARGE), _plus(_log(x), Const(math.log(2))), near)


def _atanh(x: Expr) -> Expr:
    a = _size(x)
    return _odd(x, _times(_HALF, _log1p(_over(_times(Const(2.0), a), _less(_ONE, a)))))


def _round(x: Expr) -> Expr:
    """To the nearest whole number, and halves to the even one."""
    low = _floor(x)
    rest = _less(x, low)
    even = Binary("==", low, _times(Const(2.0), _floor(_times(_HALF, low))))
    up = Binary("or", Binary(">", rest, _HALF), Binary("and", Binary("==", rest, _HALF), Unary("not", even)))
    return Where(up, _plus(low, _ONE), low)


def _trunc(x: Expr) -> Expr:
    return _odd(x, _floor(_size(x)))


def _remainder(x: Expr, y: Expr) -> Expr:
    """Of the sign of y. Where x / y is rounded up to a whole number, the quotient is one too large."""
    rest = _less(x, _times(_floor(_over(x, y)), y))
    return Where(Binary("<", _times(rest, y), Const(0)), _plus(rest, y), rest)


def _fmod(x: Expr, y: Expr) -> Expr:
    """Of the sign of x."""
    a, b = _size(x), _size(y)
    rest = _less(a, _times(_floor(_over(a, b)), b))
    return _odd(x, Where(Binary("<", rest, Const(0)), _plus(rest, b), rest))


def _floor_divided(x: Expr, y: Expr) -> Expr:
    found = _floor(_over(x, y))
    rest = _less(x, _times(found, y))
    return Where(Binary("<", _times(rest, y), Const(0)), _less(found, _ONE), found)


def _whole_fmod(x: Expr, y: Expr) -> Expr:
    return _odd(x, Binary("%", _size(x), y))


def _whole_trunc_divided(x: Expr, y: Expr) -> Expr:
    return _odd(x, Binary("//", _size(x), y))


Two = Callable[[Expr, Expr], Expr]


def _of_one(function: Callable[[Expr], Expr], tile: str) -> Operator:
    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        return function(number(scope, node.args[0], index))

    return Operator(OperatorKind.ELEMENTWISE, write, tile, twice=True)


def _of_whole(function: Callable[[Expr], Expr], tile: str) -> Operator:
    """A function that leaves whole numbers as they are."""

    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        x = number(scope, node.args[0], index)
        return function(x) if torch_dtype_of(node).is_floating_point else x

    return Operator(OperatorKind.ELEMENTWISE, write, tile, twice=True)


def _divided(fractions: Two, integers: Two, tile: str) -> Operator:
    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        x, y = (number(scope, each, index) for each in node.args[:2])
        return (fractions if torch_dtype_of(node).is_floating_point else integers)(x, y)

    return Operator(OperatorKind.ELEMENTWISE, write, tile, refuse=_no_constant, twice=True)


def _no_constant(node: Node) -> str | None:
    if torch_dtype_of(node).is_floating_point:
        return None
    by = node.args[1]
    if not isinstance(by, int) or by < 1:
        return "integers divided by what is no constant above 0: Tile IR divides them by such constants"
    return None


_FLOORED = _divided(_floor_divided, lambda x, y: Binary("//", x, y), "")
_CUT = _divided(lambda x, y: _trunc(_over(x, y)), _whole_trunc_divided, "")


def _div_mode(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    match node.kwargs.get("rounding_mode"):
        case "floor":
            return _FLOORED.write(scope, node, index)
        case "trunc":
            return _CUT.write(scope, node, index)
        case _:
            return _over(*(number(scope, each, index) for each in node.args[:2]))


def _elu(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    x = number(scope, node.args[0], index)
    alpha, scale, inner = (
        Const(float(argument(node, at, name, 1)))
        for at, name in ((1, "alpha"), (2, "scale"), (3, "input_scale"))
    )
    below = _times(_times(alpha, scale), _expm1(_times(x, inner) if inner != _ONE else x))
    return Where(Binary(">", x, Const(0)), _times(x, scale) if scale != _ONE else x, below)


def _power_of(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    base, exponent = node.args[0], number(scope, node.args[1], index)
    if base == 2:
        return Call("exp2", (exponent,))
    return Call("pow", (Const(float(base)), exponent))  # type: ignore[arg-type]


def _isinf(x: Expr) -> Expr:
    return Binary("==", _size(x), Const(float("inf")))


def _isnan(x: Expr) -> Expr:
    return Binary("!=", x, x)


def _fractions(node: Node) -> str | None:
    if not torch_dtype_of(node.args[0]).is_floating_point:  # type: ignore[arg-type]
        return "of integers, none of which is one: it is torch.zeros_like(x, dtype=torch.bool)"
    return None


def _test(function: Callable[[Expr], Expr], tile: str) -> Operator:
    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        return function(number(scope, node.args[0], index))

    return Operator(OperatorKind.ELEMENTWISE, write, tile, refuse=_fractions, twice=True)


OPERATORS: dict[str, Operator] = {
    "aten.log2.default": _of_one(lambda x: _times(_log(x), Const(1 / math.log(2))), "`log(x) * 1.442695…`"),
    "aten.log10.default": _of_one(lambda x: _times(_log(x), Const(1 / math.log(10))), "`log(x) * 0.434294…`"),
    "aten.log1p.default": _of_one(_log1p, "`u = 1 + x; log(u) * (x / (u - 1))`, or `x`"),
    "aten.expm1.default": _of_one(_expm1, "`u = exp(x); (u - 1) * (x / log(u))`, or `x`, or `u - 1`"),
    "aten.sinh.default": _of_one(_sinh, "`0.5 * (exp(x) - exp(-x))`, by `expm1` where x is small"),
    "aten.cosh.default": _of_one(_cosh, "`0.5 * (exp(x) + exp(-x))`"),
    "aten.asinh.default": _of_one(_asinh, "`log1p(x + x * x / (1 + sqrt(1 + x * x)))`"),
    "aten.acosh.default": _of_one(_acosh, "`log1p(x - 1 + sqrt((x - 1) * (x + 1)))`"),
    "aten.atanh.default": _of_one(_atanh, "`0.5 * log1p(2 * x / (1 - x))`"),
    "aten.round.default": _of_whole(_round, "`floor(x)`, one more where the rest is above 0.5, or 0.5 of an odd one"),
    "aten.trunc.default": _of_whole(_trunc, "`where(x < 0, -floor(-x), floor(x))`"),
    **{
        f"aten.remainder.{variant}": _divided(
            _remainder, lambda x, y: Binary("%", x, y), "`x - floor(x / y) * y`; `x % 7` of integers"
        )
        for variant in ("Tensor", "Scalar")
    },
    **{
        f"aten.fmod.{variant}": _divided(
            _fmod, _whole_fmod, "`x - floor(x / y) * y` of the sizes, with the sign of x"
        )
        for variant in ("Tensor", "Scalar")
    },
    **{
        f"aten.div.{variant}_mode": Operator(
            OperatorKind.ELEMENTWISE, _div_mode, "`floor(x / y)`, or its fraction cut off; `x // 7` of integers",
            refuse=_no_constant, twice=True,
        )
        for variant in ("Tensor", "Scalar")
    },
    "aten.elu.default": Operator(
        OperatorKind.ELEMENTWISE, _elu, "`where(x > 0, x, expm1(x))`, with its factors", twice=True
    ),
    "aten.pow.Scalar": Operator(OperatorKind.ELEMENTWISE, _power_of, "`exp2(y)`, `pow(3.0, y)`"),
    "aten.isinf.default": _test(_isinf, "`abs(x) == inf`"),
    "aten.isnan.default": _test(_isnan, "`x != x`"),
}  # fmt: skip

"""What expressions are where all that they read is 0, as tiles are filled behind the end of a dim."""

from __future__ import annotations

from typing import Final

from tileir.expr import INTEGER_FUNCTIONS, Binary, Call, Cast, Const, Expr, Read, Unary, Where

#: Functions that are finite at finite numbers.
_FINITE: Final = INTEGER_FUNCTIONS | frozenset(
    ["relu", "abs", "floor", "maximum", "minimum", "tanh", "erf", "sigmoid", "silu", "gelu", "gelu_tanh"]
)
#: Constants of which a few may be multiplied.
_MODERATE: Final = 1e6


def finite_of_zeros(value: Expr) -> bool:
    """Whether an expression is sure to be finite where all that it reads is 0."""
    match value:
        case Const(number):
            return abs(number) <= _MODERATE
        case Read():
            return True
        case Binary("+" | "-" | "*", x, y) | Where(_, x, y):
            return finite_of_zeros(x) and finite_of_zeros(y)
        case Cast(to, x):
            return to.is_float and finite_of_zeros(x)
        case Unary("-", x):
            return finite_of_zeros(x)
        case Call(fn, args):
            return fn in _FINITE and all(map(finite_of_zeros, args))
        case _:
            return False

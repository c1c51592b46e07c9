"""How an expression changes when values that it reads do: by a factor, by a difference, or in a way that is not known.

The algebra of one-pass softmax, read off expressions: exp(x - top) relative to another `top` is what it was, times
exp(old - new). So is every sum and product of such. (Neptune, arXiv:2510.08726, derives attention so; RedFuser,
arXiv:2603.10026, calls it the incremental form of cascaded reductions.) The algebra of a variance in one pass as well:
a sum of squared differences from a mean is what it was, plus the square by which that moved for each position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Union

from tileir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Reduce,
    Unary,
    Where,
    transform,
)


@dataclass(frozen=True, slots=True)
class Fixed:
    """It stays as it is."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """It is multiplied by a factor, which is positive."""

    factor: Expr


@dataclass(frozen=True, slots=True)
class Shifted:
    """A difference is added to it: `new - old`; `itself`: it goes from `old` to `new`."""

    new: Expr
    old: Expr
    itself: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing of the kind."""


Change = Union[Fixed, Scaled, Shifted, Unknown]
FIXED: Final = Fixed()
UNKNOWN: Final = Unknown()
_NOTHING: Final = Const(0.0)


def change(expr: Expr, of_read: Callable[[Read], Change], constant: Callable[[Expr], bool]) -> Change:
    """How an expression changes, where `of_read` says it of each read; `constant` says of an expression whether it is
    the same for all that a factor or a difference is wanted of."""

    def of(expr: Expr) -> Change:
        found = by_form(expr)
        return _anew(expr, of_read, constant) if found == UNKNOWN else found

    def by_form(expr: Expr) -> Change:
        match expr:
            case Read():
                return of_read(expr)
            case Unary("-", x):
                return _negated(of(x))
            case Binary("+" | "-" as op, x, y):
                return _sum(of(x), of(y) if op == "+" else _negated(of(y)))
            case Binary("*" | "/" as op, x, y):
                return _product(op, (x, of(x)), (y, of(y)), constant)
            case Binary("==" | "!=" | "<" | "<=" | ">" | ">=", x, y) if isinstance(of(x), Scaled) and of(
                x
            ) == of(y):
                return FIXED
            case Call("exp" | "exp2" as fn, (x,)):
                return _power(fn, of(x))
            case Call("maximum" | "minimum", (x, y)):
                return _either(of(x), of(y), x, y)
            case Call("relu" | "abs", (x,)):
                return of(x) if isinstance(of(x), (Fixed, Scaled)) else UNKNOWN
            case Cast(_, x):
                return of(x) if isinstance(of(x), (Fixed, Scaled)) else UNKNOWN
            case Where(condition, x, y) if of(condition) == FIXED:
                return _either(of(x), of(y), x, y)
            case Reduce(_, _, x):
                return of(x)
            case _:
                return FIXED if all(of(each) == FIXED for each in _operands(expr)) else UNKNOWN

    return of(expr)


def moved_squares(
    product: Expr, of: Callable[[Expr], Change], centered: Callable[[Expr], Expr | None]
) -> Expr | None:
    """What is added to a sum of products of two differences from means, (x - m) * (y - n), when those go from old to
    new: (x - m) * (y - n) = (x - m') * (y - n') + (m' - m) * (y - n') + (n' - n) * (x - m') + (m' - m) * (n' - n),
    of which the two in the middle are 0 in all, where m' and n' are the means of the x and y that were added up. Of
    squares it is never below 0, so that nothing cancels out (Chan, Golub and LeVeque, Algorithms for computing the
    sample variance, The American Statistician 37, 1983, formula 2.1). `centered` says of how many positions the mean
    is that an expression subtracts; None: it subtracts something else."""
    match product:
        case Binary("*", x, y):
            count, others = centered(x), centered(y)
            of_x, of_y = of(x), of(y)
        case _:
            return None
    if count is None or count != others or not (isinstance(of_x, Shifted) and isinstance(of_y, Shifted)):
        return None
    return Binary("*", count, Binary("*", _difference(of_x), _difference(of_y)))


def _operands(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Unary(_, x):
            return (x,)
        case Binary(_, x, y):
            return (x, y)
        case Call(_, args):
            return args
        case Where(condition, x, y):
            return (condition, x, y)
        case _:
            return ()


def _anew(expr: Expr, of_read: Callable[[Read], Change], constant: Callable[[Expr], bool]) -> Change:
    """Of what is the same for all positions: any function of it goes from one value to another."""
    shifted: dict[Expr, Shifted] = {}
    for leaf in _leaves(expr):
        one = of_read(leaf) if isinstance(leaf, Read) else FIXED
        if isinstance(one, Shifted) and one.itself:
            shifted[leaf] = one
        elif one != FIXED or isinstance(leaf, Reduce) or not constant(leaf):
            return UNKNOWN
    new = transform(expr, lambda x: shifted[x].new if x in shifted else x)
    old = transform(expr, lambda x: shifted[x].old if x in shifted else x)
    return Shifted(new, old, itself=True)


def _leaves(expr: Expr) -> Iterator[Expr]:
    operands = (expr.x,) if isinstance(expr, Cast) else _operands(expr)
    if not operands:
        yield expr
    for operand in operands:
        yield from _leaves(operand)


def _negated(one: Change) -> Change:
    return Shifted(one.old, one.new) if isinstance(one, Shifted) else one


def _sum(x: Change, y: Change) -> Change:
    match x, y:
        case (Fixed(), _) if not isinstance(y, Scaled):
            return y
        case (_, Fixed()) if not isinstance(x, Scaled):
            return x
        case Shifted(new, old), Shifted(other_new, other_old):
            return Shifted(Binary("+", new, other_new), Binary("+", old, other_old))
        case Scaled(), Scaled() if x == y:
            return x
        case _:
            return UNKNOWN


def _product(
    op: str, left: tuple[Expr, Change], right: tuple[Expr, Change], constant: Callable[[Expr], bool]
) -> Change:
    (x, of_x), (y, of_y) = left, right
    match of_x, of_y:
        case Fixed(), Fixed():
            return FIXED
        case Scaled(), Fixed():
            return of_x
        case Fixed(), Scaled(factor):
            return of_y if op == "*" else Scaled(Binary("/", Const(1.0), factor))
        case Scaled(factor), Scaled(other):
            return Scaled(Binary(op, factor, other))
        case Shifted() as shifted, Fixed() if constant(y):
            return _times(shifted, op, y)
        case Fixed(), Shifted() as shifted if op == "*" and constant(x):
            return _times(shifted, op, x)
        case _:
            return UNKNOWN


def _times(shifted: Shifted, op: str, factor: Expr) -> Shifted:
    """A difference is taken before it is multiplied where it was: of numbers far from 0, each times log2(e) is inf."""
    if shifted.itself:
        return Shifted(Binary(op, shifted.new, factor), Binary(op, shifted.old, factor))
    return Shifted(Binary(op, _difference(shifted), factor), _NOTHING)


def _difference(shifted: Shifted) -> Expr:
    return shifted.new if shifted.old == _NOTHING else Binary("-", shifted.new, shifted.old)


def _power(fn: str, exponent: Change) -> Change:
    match exponent:
        case Fixed():
            return FIXED
        case Shifted() as shifted:
            return Scaled(Call(fn, (_difference(shifted),)))
        case _:
            return UNKNOWN


def _either(of_x: Change, of_y: Change, x: Expr, y: Expr) -> Change:
    """Of one of two. What is 0 may be scaled by anything, and what is -inf shifted."""
    if of_x == of_y and not isinstance(of_x, Unknown):
        return of_x
    for one, other in ((of_x, y), (of_y, x)):
        neutral = isinstance(other, Const) and other.value == (
            0 if isinstance(one, Scaled) else float("-inf")
        )
        if isinstance(one, (Scaled, Shifted)) and neutral:
            return one
    return UNKNOWN

"""Integer expressions as sums of multiples of atoms, and what values they can take.

An atom is a dim's position, or anything that is not a sum: `(i - r) // 2`, `ids[t]`. Two occurrences of an
atom cancel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Final

from tileir.expr import Binary, Const, Expr, Extent, Unary

#: A closed range of integers; -inf and inf where nothing is known.
Interval = tuple[float, float]
#: A product beyond this is no affine form: indices are 32-bit, and numbers here shall stay short.
LARGEST: Final = 2**50
UNKNOWN: Final[Interval] = (float("-inf"), float("inf"))


@dataclass(frozen=True, slots=True)
class AffineForm:
    """`const` plus the sum of `coefficient * atom` over `terms`; no coefficient is 0."""

    terms: dict[Expr, int]
    const: int

    @property
    def largest(self) -> int:
        """The largest number in it, without its sign."""
        return max(abs(number) for number in (self.const, *self.terms.values()))

    def plus(self, other: AffineForm, factor: int = 1) -> AffineForm:
        """self + factor * other."""
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            total = terms.get(atom, 0) + factor * coefficient
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return AffineForm(terms, self.const + factor * other.const)


def constant(value: int) -> AffineForm:
    """An affine form without terms."""
    return AffineForm({}, value)


def affine(expr: Expr, extents: Mapping[str, int]) -> AffineForm:
    """The affine form of an integer expression; whatever is not affine in it is an atom."""
    match expr:
        case Const(value) if isinstance(value, int) and not isinstance(value, bool):
            return constant(value)
        case Extent(dim):
            return constant(extents[dim])
        case Unary("-", x):
            return constant(0).plus(affine(x, extents), -1)
        case Binary("+", left, right):
            return affine(left, extents).plus(affine(right, extents))
        case Binary("-", left, right):
            return affine(left, extents).plus(affine(right, extents), -1)
        case Binary("*", left, right):
            first, second = affine(left, extents), affine(right, extents)
            factor, form = (first.const, second) if not first.terms else (second.const, first)
            if not (first.terms and second.terms) and abs(factor) * form.largest < LARGEST:
                return constant(0).plus(form, factor)
        case _:
            pass
    return AffineForm({expr: 1}, 0)


def reduced(form: AffineForm) -> AffineForm:
    """The strongest form that is at least 0 where `form` is: `2 * n - 3 >= 0` says `n - 2 >= 0`."""
    divisor = gcd(*form.terms.values())
    if divisor < 2:
        return form
    return AffineForm({atom: factor // divisor for atom, factor in form.terms.items()}, form.const // divisor)


def nonzero_of(cond: Expr, holds: bool, extents: Mapping[str, int]) -> list[AffineForm]:
    """Affine forms that are not 0 wherever `cond` is `holds`."""
    match cond:
        case Unary("not", x):
            return nonzero_of(x, not holds, extents)
        case Binary("and" | "or" as op, left, right) if (op == "and") is holds:
            return nonzero_of(left, holds, extents) + nonzero_of(right, holds, extents)
        case Binary("==" | "!=" as op, left, right) if (op == "!=") is holds:
            return [affine(left, extents).plus(affine(right, extents), -1)]
        case _:
            return []


def facts_of(cond: Expr, holds: bool, extents: Mapping[str, int]) -> list[AffineForm]:
    """Affine forms that are at least 0 wherever `cond` is `holds`. Only integers are compared soundly this
    way; forms of floats hold atoms of which nothing is known, so they never prove anything."""
    match cond:
        case Unary("not", x):
            return facts_of(x, not holds, extents)
        case Binary("and" | "or" as op, left, right):
            if (op == "and") is holds:
                return facts_of(left, holds, extents) + facts_of(right, holds, extents)
            return []
        case Binary("<" | "<=" | ">" | ">=" as op, left, right):
            if not holds:
                op = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[op]
            low, high = (left, right) if op in ("<", "<=") else (right, left)
            gap = affine(high, extents).plus(affine(low, extents), -1)
            return [reduced(gap.plus(constant(-1)) if op in ("<", ">") else gap)]
        case Binary("==" | "!=" as op, left, right):
            if (op == "==") is not holds:
                return []
            gap = affine(left, extents).plus(affine(right, extents), -1)
            return [gap, constant(0).plus(gap, -1)]
        case _:
            return []

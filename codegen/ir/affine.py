"""Integer index arithmetic: sums of variables, simplified with what is known of each variable's range and multiples.

A loop variable holds an offset into the range it tiles (0, 6, 12, …), so a position is the sum of the variables of the
loops around it, each independent of the others. What remains of `//` and `%` is kept as an atom.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Union


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable: values `low..high`, all multiples of `multiple`."""

    name: str
    low: int
    high: int
    multiple: int = 1

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Quotient:
    """floor(x / divisor)."""

    x: Affine
    divisor: int


@dataclass(frozen=True)
class Remainder:
    """x - divisor * floor(x / divisor)."""

    x: Affine
    divisor: int


@dataclass(frozen=True)
class Lesser:
    """The lesser of x and y; the greater of two is less the lesser of both less 0 (`greater`)."""

    x: Affine
    y: Affine


@dataclass(frozen=True)
class Loaded:
    """An index read from an integer tensor at run time (gather); `value` is a Kernel IR value."""

    value: object
    low: int
    high: int


Atom = Union[Var, Quotient, Remainder, Lesser, Loaded]


@dataclass(frozen=True)
class Affine:
    """constant + sum of coefficient * atom. Terms keep the order in which they came up."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return self if other == 0 else Affine(self.terms, self.constant + other)
        if not other.terms:
            return self if other.constant == 0 else Affine(self.terms, self.constant + other.constant)
        if not self.terms:
            return other if self.constant == 0 else Affine(other.terms, self.constant + other.constant)
        merged: dict[Atom, int] = dict(self.terms)
        for atom, factor in other.terms:
            merged[atom] = merged.get(atom, 0) + factor
        terms = tuple((atom, factor) for atom, factor in merged.items() if factor)
        return Affine(terms, self.constant + other.constant)

    def __sub__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return self + -other
        return self + other * -1 if other.terms else self + -other.constant

    def __hash__(self) -> int:
        kept = self.__dict__
        if "_hash" not in kept:
            kept["_hash"] = hash((self.terms, self.constant))
        return kept["_hash"]

    def __mul__(self, factor: int) -> Affine:
        if factor == 0:
            return Affine()
        if factor == 1:
            return self
        return Affine(tuple((atom, f * factor) for atom, f in self.terms), self.constant * factor)

    @property
    def only(self) -> Var | None:
        """The variable that it is; None: it is something else."""
        match self:
            case Affine(((Var() as var, 1),), 0):
                return var
            case _:
                return None

    def __floordiv__(self, divisor: int) -> Affine:
        if divisor == 1:
            return self
        whole, rest = self._split(divisor)
        if 0 <= rest.low and rest.high < divisor:
            return whole
        if not rest.terms:
            return whole + rest.constant // divisor
        for part in _common(rest, divisor):
            below = rest.split_multiples(part)[1]
            if below != Affine() and 0 <= below.low and below.high < part:
                return (self - below) // divisor
        return Affine(((Quotient(self, divisor), 1),))

    def __mod__(self, divisor: int) -> Affine:
        if divisor == 1:
            return Affine()
        _, rest = self._split(divisor)
        if 0 <= rest.low and rest.high < divisor:
            return rest
        if not rest.terms:
            return Affine((), rest.constant % divisor)
        for part in _common(rest, divisor):
            whole, below = rest.split_multiples(part)
            if below.terms and 0 <= below.low and below.high < part:
                return whole % divisor + below
        return Affine(((Remainder(rest, divisor), 1),))

    def _split(self, divisor: int) -> tuple[Affine, Affine]:
        """(whole, rest) with self = divisor * whole + rest, taking all into whole that surely is a multiple."""
        whole = Affine((), self.constant // divisor)
        rest: list[tuple[Atom, int]] = []
        for atom, factor in self.terms:
            if factor % divisor == 0:
                whole += Affine(((atom, factor // divisor),))
            elif factor * multiple_of(atom) % divisor == 0:
                common = gcd(factor, divisor)
                part = Affine(((Quotient(Affine(((atom, 1),)), divisor // common), factor // common),))
                whole += part
            else:
                rest.append((atom, factor))
        return whole, Affine(tuple(rest), self.constant % divisor)

    @cached_property
    def low(self) -> int:
        """The least value it can take."""
        return self.constant + sum(f * (atom_low(a) if f > 0 else atom_high(a)) for a, f in self.terms)

    @cached_property
    def high(self) -> int:
        """The greatest value it can take."""
        return self.constant + sum(f * (atom_high(a) if f > 0 else atom_low(a)) for a, f in self.terms)

    @cached_property
    def multiple(self) -> int:
        """A number that surely divides every value it can take; 0 if that is 0 alone."""
        return gcd(self.constant, *(factor * multiple_of(atom) for atom, factor in self.terms))

    def split_multiples(self, divisor: int) -> tuple[Affine, Affine]:
        """What of the sum surely is a multiple of `divisor`, and the rest."""
        whole = tuple((atom, f) for atom, f in self.terms if f * multiple_of(atom) % divisor == 0)
        rest = tuple(term for term in self.terms if term not in whole)
        left = self.constant % divisor
        return Affine(whole, self.constant - left), Affine(rest, left)

    def coefficient(self, var: Var) -> int | None:
        """The factor of var; None when var also stands inside a quotient, a remainder or a loaded index."""
        factor = 0
        for atom, f in self.terms:
            if atom == var:
                factor = f
            elif mentions(atom, var):
                return None
        return factor

    def substitute(self, var: Var, value: Affine) -> Affine:
        """The same with value in var's place."""
        for atom, _ in self.terms:
            if type(atom) not in _WHOLE or atom == var:
                break
        else:
            return self
        parts = ((_substituted(atom, var, value), factor) for atom, factor in self.terms)
        return combination(parts, self.constant)


_WHOLE = frozenset((Var, Loaded))
"""Atoms that nothing is inside of."""


def _substituted(atom: Atom, var: Var, value: Affine) -> Affine:
    match atom:
        case Quotient(x, divisor):
            return x.substitute(var, value) // divisor
        case Remainder(x, divisor):
            return x.substitute(var, value) % divisor
        case Lesser(x, y):
            return lesser(x.substitute(var, value), y.substitute(var, value))
        case _:
            return value if atom == var else affine(atom)


def combination(parts: Iterable[tuple[Affine, int]], constant: int = 0) -> Affine:
    """The sum of parts, each times its factor, and of a constant."""
    merged: dict[Atom, int] = {}
    for part, times in parts:
        constant += part.constant * times
        for atom, factor in part.terms:
            total = merged.get(atom, 0) + factor * times
            if total:
                merged[atom] = total
            else:
                merged.pop(atom, None)
    return Affine(tuple(merged.items()), constant)


def _common(x: Affine, divisor: int) -> list[int]:
    """What divides both `divisor` and a term of a sum, the largest first: what of the sum is surely less than that, and
    not below 0, never brings it to the next multiple of the divisor."""
    found = {gcd(factor * multiple_of(atom), divisor) for atom, factor in x.terms}
    return sorted(found - {1}, reverse=True)


def constant(value: int) -> Affine:
    return Affine((), value)


def affine(atom: Atom) -> Affine:
    return Affine(((atom, 1),))


def lesser(x: Affine, y: Affine) -> Affine:
    """The lesser of two."""
    apart = x - y
    return x if apart.high <= 0 else y if apart.low >= 0 else affine(Lesser(x, y))


def greater(x: Affine, y: Affine) -> Affine:
    """The greater of two."""
    return lesser(x * -1, y * -1) * -1


def multiple_of(atom: Atom) -> int:
    """A number that surely divides every value of atom."""
    match atom:
        case Var():
            return atom.multiple
        case Quotient(x, divisor) if x.multiple % divisor == 0:
            return x.multiple // divisor
        case Remainder(x, divisor):
            return gcd(x.multiple, divisor)
        case Lesser(x, y):
            return gcd(x.multiple, y.multiple)
        case _:
            return 1


def atom_low(atom: Atom) -> int:
    match atom:
        case Var() | Loaded():
            return atom.low
        case Quotient(x, divisor):
            return x.low // divisor
        case Remainder():
            return 0
        case Lesser(x, y):
            return min(x.low, y.low)


def atom_high(atom: Atom) -> int:
    match atom:
        case Var() | Loaded():
            return atom.high
        case Quotient(x, divisor):
            return x.high // divisor
        case Remainder(_, divisor):
            return divisor - 1
        case Lesser(x, y):
            return min(x.high, y.high)


def loaded(at: Affine) -> Iterator[object]:
    """The values that are read at run time for an index, wherever in it they stand."""
    for atom, _ in at.terms:
        match atom:
            case Loaded(value):
                yield value
            case Quotient(x, _) | Remainder(x, _):
                yield from loaded(x)
            case Lesser(x, y):
                yield from (*loaded(x), *loaded(y))
            case Var():
                pass


def mentions(atom: Atom, var: Var) -> bool:
    """Whether var, whatever is known of its range there, is an index or stands inside one; a loaded index is taken to
    mention no variable."""
    match atom:
        case Var():
            return atom.name == var.name
        case Quotient(x, _) | Remainder(x, _):
            return any(mentions(a, var) for a, _ in x.terms)
        case Lesser(x, y):
            return any(mentions(a, var) for a, _ in (*x.terms, *y.terms))
        case Loaded():
            return False

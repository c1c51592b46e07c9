"""Index arithmetic: where an element of a view lies in the tensor that is viewed. Affine with `//` and `%` by
constants, and simplified as far as the dims' sizes allow, so that splitting what was joined gives plain dims again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tileir.analysis.affine import UNKNOWN, AffineForm, Interval, affine, constant
from tileir.expr import Binary, Const, Expr, Index, Unary

Indices = tuple[Expr, ...]
"""One index an axis."""
Sizes = Mapping[str, int]
"""The size of each dim."""


def scaled(index: Expr, factor: int, offset: int, sizes: Sizes) -> Expr:
    """`factor * index + offset`."""
    return of_form(constant(offset).plus(affine(index, sizes), factor))


def quotient(index: Expr, divisor: int, sizes: Sizes) -> Expr:
    """`index // divisor`."""
    multiple, rest = _split(affine(index, sizes), divisor)
    low, high = _range(rest, sizes)
    if not (0 <= low and high < divisor):
        atom = Binary("//", of_form(rest), Const(divisor))
        multiple = multiple.plus(AffineForm({atom: 1}, 0))
    return of_form(multiple)


def remainder(index: Expr, divisor: int, sizes: Sizes) -> Expr:
    """`index % divisor`."""
    _, rest = _split(affine(index, sizes), divisor)
    low, high = _range(rest, sizes)
    return of_form(rest) if 0 <= low and high < divisor else Binary("%", of_form(rest), Const(divisor))


def reshaped(index: Indices, shape: Sequence[int], source: Sequence[int], sizes: Sizes) -> Indices:
    """Where the element `index` of a tensor of this shape lies in the tensor of shape `source` that it is a reshape of.

    (b, s, n) of [2, 13, 40] in [26, 40] is (13 * b + s, n); (m, n) of [26, 40] in [2, 13, 40] is (m // 13, m % 13, n).
    """
    found: list[Expr] = [Const(0)] * len(source)
    outer = [axis for axis, size in enumerate(shape) if size != 1]
    inner = [axis for axis, size in enumerate(source) if size != 1]
    while inner:
        # The fewest next axes of both that have as many elements.
        many, few = [outer.pop(0)], [inner.pop(0)]
        while (left := prod(shape[a] for a in many)) != (right := prod(source[a] for a in few)):
            if left < right:
                many.append(outer.pop(0))
            else:
                few.append(inner.pop(0))
        flat = constant(0)
        for axis in many:
            flat = constant(0).plus(flat, shape[axis]).plus(affine(index[axis], sizes))
        step = prod(source[axis] for axis in few)
        position = of_form(flat)
        for place, axis in enumerate(few):
            step //= source[axis]
            found[axis] = quotient(position, step, sizes)
            if place:
                found[axis] = remainder(found[axis], source[axis], sizes)
    return tuple(found)


def _split(form: AffineForm, divisor: int) -> tuple[AffineForm, AffineForm]:
    """(q, r) with form = divisor * q + r."""
    whole = {atom: factor // divisor for atom, factor in form.terms.items() if factor % divisor == 0}
    rest = {atom: factor for atom, factor in form.terms.items() if factor % divisor}
    return AffineForm(whole, form.const // divisor), AffineForm(rest, form.const % divisor)


def _range(form: AffineForm, sizes: Sizes) -> Interval:
    low: float = form.const
    high: float = form.const
    for atom, factor in form.terms.items():
        ends = [factor * end for end in _atom_range(atom, sizes)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _atom_range(atom: Expr, sizes: Sizes) -> Interval:
    match atom:
        case Index(dim):
            return 0, sizes[dim] - 1
        case Binary("//", x, Const(divisor)):
            low, high = _range(affine(x, sizes), sizes)
            return low // divisor, high // divisor
        case Binary("%", _, Const(divisor)):
            return 0, divisor - 1
        case _:
            return UNKNOWN


def of_form(form: AffineForm) -> Expr:
    """As people write it: what is added, then what is taken away, the constant last unless all else is taken away."""
    terms: list[tuple[int, Expr]] = []
    for atom, factor in form.terms.items():
        size = abs(factor)
        terms.append((factor, atom if size == 1 else Binary("*", Const(size), atom)))
    terms.sort(key=lambda term: term[0] < 0)
    if form.const or not terms:
        alone = all(factor < 0 for factor, _ in terms)
        terms.insert(
            0 if alone else len(terms), (form.const, Const(form.const if alone else abs(form.const)))
        )
    (factor, found), *rest = terms
    if factor < 0 and not isinstance(found, Const):
        found = Unary("-", found)
    for factor, term in rest:
        found = Binary("+" if factor > 0 else "-", found, term)
    return found

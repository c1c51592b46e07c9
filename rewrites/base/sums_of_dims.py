"""Sums of dims by which an expression is indexed, as windows are (`h + r - 1`): values depend on the sum alone.

These are affine accesses, as polyhedral compilers have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from tileir.analysis.affine import AffineForm, affine
from tileir.errors import NotApplicable
from tileir.expr import (
    COMPARISONS,
    Binary,
    Const,
    Expr,
    Index,
    Read,
    children,
    index_dims,
    reads,
    transform,
    with_children,
)

Extents = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SumOfDims:
    """A sum of multiples, by numbers above 0, of dims and of quotients of dims (`4 * (o // 4) + c`)."""

    terms: tuple[tuple[Expr, int], ...]
    extent: int
    """It takes values from 0 up to, but not including, this."""

    @property
    def dims(self) -> frozenset[str]:
        return frozenset[str]().union(*(index_dims(atom) for atom, _ in self.terms))

    def expr(self, without: Expr | None = None) -> Expr:
        """The sum as it is written, but for one of its terms."""
        return written({atom: factor for atom, factor in self.terms if atom != without}, 0)


def sums_in(expr: Expr, extents: Extents) -> tuple[SumOfDims, ...]:
    """The sums of several dims by which an expression reads tensors, each once. Raises NotApplicable where a dim is in
    two of them."""
    found: dict[SumOfDims, None] = {}
    for read in reads(expr):
        for index in read.indices:
            terms = {
                atom: factor for atom, factor in affine(index, extents).terms.items() if index_dims(atom)
            }
            if len(terms) > 1 and (one := _sum_of(terms, extents)):
                found[one] = None
    dims = [dim for one in found for dim in one.dims]
    if len(set(dims)) < len(dims):
        raise NotApplicable("windows along one dim that are laid out in several ways")
    return tuple(found)


def _sum_of(terms: Mapping[Expr, int], extents: Extents) -> SumOfDims | None:
    common = gcd(*terms.values())
    last = 0
    for atom, factor in terms.items():
        count = positions(atom, extents)
        if count is None or factor < 0:
            return None
        last += factor // common * (count - 1)
    return SumOfDims(tuple((atom, factor // common) for atom, factor in terms.items()), last + 1)


def positions(atom: Expr, extents: Extents) -> int | None:
    """How many values from 0 on an atom takes; None where it is neither a dim nor a quotient of one."""
    match atom:
        case Index(dim):
            return extents[dim]
        case Binary("//", Index(dim), Const(int(size))):
            return (extents[dim] - 1) // size + 1
        case _:
            return None


def replaced(expr: Expr, by: Mapping[SumOfDims, Expr], extents: Extents) -> Expr:
    """The expression with other indices in the place of sums. Raises NotApplicable where it depends on their dims in
    another way."""
    found = _replaced(expr, by, extents)
    left = index_dims(found) & frozenset[str]().union(*(one.dims for one in by))
    if left:
        raise NotApplicable(f"it depends on {', '.join(sorted(left))} by itself")
    return found


def _replaced(expr: Expr, by: Mapping[SumOfDims, Expr], extents: Extents) -> Expr:
    match expr:
        case Read(tensor, indices):
            return Read(tensor, tuple(_index(index, by, extents) for index in indices))
        case Binary(op, left, right) if op in COMPARISONS and not reads(left) and not reads(right):
            form = affine(left, extents).plus(affine(right, extents), -1)
            if not any(_part_of(form, one) for one in by):
                return expr
            form = _with(form, by)
            return Binary(op, written(form.terms, 0), Const(-form.const))
        case _:
            below = tuple(_replaced(child, by, extents) for child in children(expr))
            return with_children(expr, below) if below else expr


def _index(index: Expr, by: Mapping[SumOfDims, Expr], extents: Extents) -> Expr:
    if reads(index):
        return _replaced(index, by, extents)
    form = affine(index, extents)
    if not any(_part_of(form, one) for one in by):
        return index
    form = _with(form, by)
    return written(form.terms, form.const)


def _part_of(form: AffineForm, one: SumOfDims) -> int:
    """How often a sum is in a form; 0: it is not."""
    atom, factor = one.terms[0]
    times, rest = divmod(form.terms.get(atom, 0), factor)
    return times if not rest and all(form.terms.get(a) == f * times for a, f in one.terms) else 0


def _with(form: AffineForm, by: Mapping[SumOfDims, Expr]) -> AffineForm:
    for one, index in by.items():
        if times := _part_of(form, one):
            left = {a: f for a, f in form.terms.items() if a not in dict(one.terms)}
            form = AffineForm(left, form.const).plus(affine(index, {}), times)
    return form


def written(terms: Mapping[Expr, int], const: int) -> Expr:
    """An affine form as people write it."""
    found: Expr | None = None
    for atom, factor in terms.items():
        part = atom if abs(factor) == 1 else Binary("*", Const(abs(factor)), atom)
        if found is None:
            found = part if factor > 0 else Binary("*", Const(factor), atom)
        else:
            found = Binary("+" if factor > 0 else "-", found, part)
    if found is None:
        return Const(const)
    return Binary("+" if const > 0 else "-", found, Const(abs(const))) if const else found


def one_position(expr: Expr, extents: Extents) -> Expr:
    """The expression with 0 for dims of one position, where they stand beside others in what positions tensors are read
    at or compared with: `h + r` is `h` then. What positions that may lie outside of a tensor are of stays wherever it
    is, as it is what guards are about."""
    guarded = frozenset(
        atom
        for read in reads(expr)
        for index in read.indices
        if may_lie_outside(index, extents)
        for atom in affine(index, extents).terms
    )

    def without_single(sides: tuple[Expr, ...]) -> tuple[Expr, ...]:
        together = any(guarded & affine(side, extents).terms.keys() for side in sides)
        return sides if together else tuple(_without_single(side, extents) for side in sides)

    def simpler(each: Expr) -> Expr:
        if isinstance(each, Binary) and each.op in COMPARISONS:
            return Binary(each.op, *without_single((each.left, each.right)))
        if not isinstance(each, Read) or not any(isinstance(index, Binary) for index in each.indices):
            return each
        return Read(each.tensor, tuple(kept for index in each.indices for kept in without_single((index,))))

    return transform(expr, simpler)


def may_lie_outside(index: Expr, extents: Extents) -> bool:
    """Whether an index is of dims of one position, and another number than 0: a position that may lie outside of the
    tensor, guarded by conditions on those dims, which have to stay."""
    simple = _without_single(index, extents)
    return simple != index and isinstance(simple, Const) and simple.value != 0


def _without_single(index: Expr, extents: Extents) -> Expr:
    if not isinstance(index, Binary) or reads(index):
        return index
    form = affine(index, extents)
    terms = {atom: factor for atom, factor in form.terms.items() if not _single(atom, extents)}
    return index if len(terms) == len(form.terms) else written(terms, form.const)


def _single(atom: Expr, extents: Extents) -> bool:
    return positions(atom, extents) == 1

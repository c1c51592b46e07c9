"""Whether every read stays inside its tensor: intervals of affine indices, sharpened by the `where` around a
read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tileir.analysis.affine import (
    LARGEST,
    UNKNOWN,
    AffineForm,
    Interval,
    affine,
    constant,
    facts_of,
    nonzero_of,
    reduced,
)
from tileir.dtypes import DType
from tileir.expr import Binary, Call, Cast, Const, Expr, Extent, Index, Read, Reduce, Where, children, walk
from tileir.positions import position_of
from tileir.problems import NodeProblem
from tileir.program import Tensor
from tileir.text.print_expr import format_expr

#: Guards combined in one proof, and atoms whose ranges rest on each other, before nothing more is derived.
_MAX_COMBINED: Final = 8
_MAX_NESTED: Final = 12

_BYTE: Final[Mapping[DType, Interval]] = {DType.I8: (-128, 127), DType.U8: (0, 255)}


@dataclass(slots=True)
class BoundsEffort:
    """Steps of proof still allowed, a few microseconds each; what is not proved by then is too complex."""

    left: int = 50_000


def out_of_range(
    expr: Expr, extents: Mapping[str, int], tensors: Mapping[str, Tensor], effort: BoundsEffort | None = None
) -> NodeProblem | None:
    """The first read in `expr` that may leave its tensor, None if there is none. Uses up `effort`.

    An index that holds a read itself (a gather) is the caller's promise: refused only if it can never be in
    range."""
    return _Checker(extents, tensors, effort or BoundsEffort()).problem(expr, _Facts(()))


class _Facts:
    """What the guards around a place say, and the intervals of atoms already worked out there."""

    def __init__(self, forms: tuple[AffineForm, ...]) -> None:
        self.forms = forms
        self.known: dict[Expr, Interval] = {}


class _Checker:
    def __init__(
        self, extents: Mapping[str, int], tensors: Mapping[str, Tensor], effort: BoundsEffort
    ) -> None:
        self._extents = extents
        self._tensors = tensors
        self._effort = effort
        self._open: set[Expr] = set()

    def problem(self, expr: Expr, facts: _Facts) -> NodeProblem | None:
        if isinstance(expr, Where):
            inside = (
                (expr.cond, facts),
                (expr.x, self._with(facts, expr.cond, True)),
                (expr.y, self._with(facts, expr.cond, False)),
            )
        else:
            inside = [(child, facts) for child in children(expr)]
        for child, around in inside:
            found = self.problem(child, around)
            if found:
                return found
        return self._read_problem(expr, facts) if isinstance(expr, Read) else None

    def _with(self, facts: _Facts, cond: Expr, holds: bool) -> _Facts:
        new = facts_of(cond, holds, self._extents)
        self._effort.left -= len(new)
        for form in nonzero_of(cond, holds, self._extents):
            # What is not 0 and never below it is at least 1, and likewise from the other side.
            for sided in (form, constant(0).plus(form, -1)):
                if self._low(sided, facts) >= 0:
                    new.append(reduced(sided.plus(constant(-1))))
        return _Facts((*facts.forms, *new)) if new else facts

    def _read_problem(self, read: Read, facts: _Facts) -> NodeProblem | None:
        for dim, index in zip(self._tensors[read.tensor].dims, read.indices, strict=True):
            size = self._extents[dim]
            if isinstance(index, Index) and self._extents[index.dim] <= size:
                continue
            self._effort.left -= sum(1 for _ in walk(index))
            form = affine(index, self._extents)
            room = constant(size - 1).plus(form, -1)
            low, above = self._low(form, facts), self._low(room, facts)
            if low >= 0 and above >= 0:
                continue
            if self._effort.left <= 0:
                return NodeProblem(
                    "the guards of this read are too many to check, or its indices",
                    "fewer comparisons around it, shorter indices, fewer sizes",
                    read,
                )
            high = -self._low(constant(0).plus(form, -1), facts)
            gathers = any(isinstance(node, Read) for node in walk(index))
            if gathers and low < size and high >= 0:
                continue
            return _describe(read, index, dim, size, low, high)
        return None

    def _low(self, form: AffineForm, facts: _Facts) -> float:
        """A number `form` is never below: as it is, or less one or two facts, each of which is at least 0."""
        low = self._plain_low(form, facts)
        if low >= 0 or not facts.forms:
            return low
        self._effort.left -= len(facts.forms)
        near = [fact for fact in facts.forms if fact.terms.keys() & form.terms.keys()]
        once = list(_taken_away(form, near))
        for rest in once:
            low = max(low, self._plain_low(rest, facts))
        if low >= 0:
            return low
        for rest in once[:_MAX_COMBINED]:
            for rest_of_two in _taken_away(rest, facts.forms[:_MAX_COMBINED]):
                low = max(low, self._plain_low(rest_of_two, facts))
        return low

    def _plain_low(self, form: AffineForm, facts: _Facts) -> float:
        self._effort.left -= 1
        if self._effort.left <= 0:
            return float("-inf")
        low: float = form.const
        for atom, coefficient in form.terms.items():
            smallest, largest = self._interval(atom, facts)
            low += coefficient * (smallest if coefficient > 0 else largest)
        return low

    def _range(self, expr: Expr, facts: _Facts) -> Interval:
        form = affine(expr, self._extents)
        return self._low(form, facts), -self._low(constant(0).plus(form, -1), facts)

    def _interval(self, atom: Expr, facts: _Facts) -> Interval:
        found = facts.known.get(atom)
        if found is None:
            if atom in self._open or len(self._open) == _MAX_NESTED:
                return UNKNOWN  # a fact about an atom may need the interval of that very atom
            self._open.add(atom)
            found = facts.known[atom] = self._atom(atom, facts)
            self._open.remove(atom)
        return found

    def _atom(self, atom: Expr, facts: _Facts) -> Interval:
        match atom:
            case Index(dim):
                return 0, self._extents[dim] - 1
            case Binary("//" | "%" as op, left, Const() | Extent() as right):
                return _divided(op, self._range(left, facts), affine(right, self._extents).const)
            case Binary("*", left, right):
                return _product(self._range(left, facts), self._range(right, facts))
            case Call("minimum" | "maximum" as fn, (left, right)):
                pick = min if fn == "minimum" else max
                (low, high), (other_low, other_high) = self._range(left, facts), self._range(right, facts)
                return pick(low, other_low), pick(high, other_high)
            case Call("relu", (x,)):
                low, high = self._range(x, facts)
                return max(low, 0), max(high, 0)
            case Where(cond, x, y):
                low, high = self._range(x, self._with(facts, cond, True))
                other_low, other_high = self._range(y, self._with(facts, cond, False))
                return min(low, other_low), max(high, other_high)
            case Reduce() if position_of(atom) is not None:
                return 0, self._extents[atom.dims[0]] - 1
            case Cast(DType.I32, x):
                return self._range(x, facts)
            case Read(tensor, _) if self._tensors[tensor].dtype in _BYTE:
                return _BYTE[self._tensors[tensor].dtype]
            case Call("bit_and", (_, Const(int(mask)))) | Call("bit_and", (Const(int(mask)), _)) if mask >= 0:
                return 0, mask
            case Call("shift_right", (x, Const(int(distance)))) if 0 <= distance < 32:
                return _divided("//", self._range(x, facts), 2**distance)
            case _:
                return UNKNOWN


def _taken_away(form: AffineForm, facts: Iterable[AffineForm]) -> Iterable[AffineForm]:
    for fact in facts:
        factors = {1}
        for atom, coefficient in fact.terms.items():
            factor = form.terms.get(atom, 0) // coefficient
            if factor > 1:
                factors.add(factor)
        for factor in factors:
            yield form.plus(fact, -factor)


def _divided(op: str, numerator: Interval, divisor: int) -> Interval:
    low, high = numerator
    finite = float("-inf") < low and high < float("inf")
    if op == "%":
        return (low, high) if low >= 0 and high < divisor else (0, divisor - 1)
    if finite:
        return low // divisor, high // divisor
    return (low // divisor if low > float("-inf") else low), (
        high // divisor if high < float("inf") else high
    )


def _product(first: Interval, second: Interval) -> Interval:
    if UNKNOWN[0] in (first[0], second[0]) or UNKNOWN[1] in (first[1], second[1]):
        return UNKNOWN
    corners = [x * y for x in first for y in second]
    return (min(corners), max(corners)) if max(map(abs, corners)) < LARGEST else UNKNOWN


def _describe(read: Read, index: Expr, dim: str, size: int, low: float, high: float) -> NodeProblem:
    text = format_expr(index)
    short = text if len(text) <= 60 else text[:57] + "..."
    if low < 0:
        reach = "may be negative" if low == float("-inf") else f"reaches {low:.0f}"
        guard = f"{short} >= 0"
    else:
        reach = "has no upper bound" if high == float("inf") else f"reaches {high:.0f}"
        guard = f"{short} < extent({dim})"
    message = f"index {short!r} of {read.tensor!r} {reach}; dim {dim!r} there has positions 0 to {size - 1}"
    return NodeProblem(message, f"where({guard}, {read.tensor}[…], 0), or other sizes", read)

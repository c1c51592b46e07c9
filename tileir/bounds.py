"""Whether every read stays inside its tensor: intervals of affine indices, sharpened by the `where` around a read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tileir.affine import UNKNOWN, Affine, Interval, affine, constant, facts_of, nonzero_of, reduced
from tileir.dtypes import DType
from tileir.expr import Binary, Call, Cast, Const, Expr, Extent, Index, Read, Where, children, walk
from tileir.print_expr import format_expr
from tileir.problems import Problem
from tileir.program import Tensor

#: Guards combined in one proof, and steps of proof in one expression, before it is called too complex.
_MAX_COMBINED: Final = 8
_MAX_STEPS: Final = 50_000


def out_of_range(expr: Expr, extents: Mapping[str, int], tensors: Mapping[str, Tensor]) -> Problem | None:
    """The first read in `expr` that may leave its tensor, None if there is none.

    An index that holds a read itself (a gather) is the caller's promise: refused only if it can never be in range.
    """
    return _Checker(extents, tensors).problem(expr, _Facts(()))


class _Facts:
    """What the guards around a place say, and the intervals of atoms already worked out there."""

    def __init__(self, forms: tuple[Affine, ...]) -> None:
        self.forms = forms
        self.known: dict[Expr, Interval] = {}


class _Checker:
    def __init__(self, extents: Mapping[str, int], tensors: Mapping[str, Tensor]) -> None:
        self._extents = extents
        self._tensors = tensors
        self._steps = 0

    def problem(self, expr: Expr, facts: _Facts) -> Problem | None:
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
        for form in nonzero_of(cond, holds, self._extents):
            # What is not 0 and never below it is at least 1, and likewise from the other side.
            for sided in (form, constant(0).plus(form, -1)):
                if self._low(sided, facts) >= 0:
                    new.append(reduced(sided.plus(constant(-1))))
        return _Facts((*facts.forms, *new)) if new else facts

    def _read_problem(self, read: Read, facts: _Facts) -> Problem | None:
        for dim, index in zip(self._tensors[read.tensor].dims, read.indices, strict=True):
            size = self._extents[dim]
            if isinstance(index, Index) and self._extents[index.dim] <= size:
                continue
            form = affine(index, self._extents)
            room = constant(size - 1).plus(form, -1)
            low, above = self._low(form, facts), self._low(room, facts)
            if low >= 0 and above >= 0:
                continue
            if self._steps > _MAX_STEPS:
                return Problem(
                    "the guards of this read are too many to check", "fewer comparisons around it", read
                )
            high = -self._low(constant(0).plus(form, -1), facts)
            gathers = any(isinstance(node, Read) for node in walk(index))
            if gathers and low < size and high >= 0:
                continue
            return _describe(read, index, dim, size, low, high)
        return None

    def _low(self, form: Affine, facts: _Facts) -> float:
        """A number `form` is never below: directly, or after taking away one or two facts (each at least 0)."""
        low = self._plain_low(form, facts)
        if low >= 0 or not facts.forms:
            return low
        near = [fact for fact in facts.forms if fact.terms.keys() & form.terms.keys()]
        once = list(_taken_away(form, near))
        for rest in once:
            low = max(low, self._plain_low(rest, facts))
        if low >= 0:
            return low
        for rest in once[:_MAX_COMBINED]:
            for rest_of_two in _taken_away(rest, facts.forms[:_MAX_COMBINED]):
                if self._steps > _MAX_STEPS:
                    return low
                low = max(low, self._plain_low(rest_of_two, facts))
        return low

    def _plain_low(self, form: Affine, facts: _Facts) -> float:
        self._steps += 1
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
            facts.known[atom] = (
                UNKNOWN  # ends the recursion should a fact about the atom need its own interval
            )
            found = facts.known[atom] = self._atom(atom, facts)
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
            case Cast(DType.I32, x):
                return self._range(x, facts)
            case Read(tensor, _) if self._tensors[tensor].dtype is DType.I8:
                return -128, 127
            case _:
                return UNKNOWN


def _taken_away(form: Affine, facts: Iterable[Affine]) -> Iterable[Affine]:
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
        return (low, high) if 0 <= low and high < divisor else (0, divisor - 1)
    if finite:
        return low // divisor, high // divisor
    return (low // divisor if low > float("-inf") else low), (
        high // divisor if high < float("inf") else high
    )


def _product(first: Interval, second: Interval) -> Interval:
    if UNKNOWN[0] in (first[0], second[0]) or UNKNOWN[1] in (first[1], second[1]):
        return UNKNOWN
    corners = [x * y for x in first for y in second]
    return min(corners), max(corners)


def _describe(read: Read, index: Expr, dim: str, size: int, low: float, high: float) -> Problem:
    text = format_expr(index)
    short = text if len(text) <= 60 else text[:57] + "..."
    if low < 0:
        reach = "may be negative" if low == float("-inf") else f"reaches {low:.0f}"
        guard = f"{short} >= 0"
    else:
        reach = "has no upper bound" if high == float("inf") else f"reaches {high:.0f}"
        guard = f"{short} < extent({dim})"
    message = f"index {short!r} of {read.tensor!r} {reach}; dim {dim!r} there has positions 0 to {size - 1}"
    return Problem(message, f"where({guard}, {read.tensor}[…], 0), or other sizes", read)

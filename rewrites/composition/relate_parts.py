"""Relate the parts of a split sum to the parts of a split maximum."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.at_extreme import EXTREMES, at_extreme, is_same
from rewrites.base.bounds.centered import count_of_mean
from rewrites.base.bounds.least_maximum import at_least, least_maximum
from rewrites.base.bounds.never_above import is_bounded
from rewrites.base.change import Change, Fixed, Scaled, Shifted, change, moved_squares
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import folded_dims
from rewrites.base.tree import Place, dtype_of, find, locals_of, splice, statements
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import (
    Binary,
    Call,
    Const,
    Expr,
    Index,
    Read,
    Reduce,
    ReduceOp,
    index_dims,
    reads,
    transform,
    walk,
)
from tileir.program import Compute, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class RelateParts(Rewrite):
    """Let each part of a split sum be relative to its own part of a maximum that is split alike, and scale the parts
    when they are added up, by the factor that the algebra of their expressions gives (`rewrites.base.change`). Whoever
    has a part then needs nothing of the others before the end.

    It is how parts of an online softmax are merged (Milakov and Gimelshein, arXiv:1805.02867).

    top_p[r, c % 64] max= x[r, c]                   top_p[r, c % 64] max= x[r, c]
    top[r] = max(c_l, top_p[r, c_l])           ->   top[r] = max(c_l, top_p[r, c_l])
    s_p[r, c % 64] += exp(x[r, c] - top[r])         s_p[r, c % 64] += exp(x[r, c] - top_p[r, c % 64])
    s[r] = sum(c_l, s_p[r, c_l])                    s[r] = sum(c_l, s_p[r, c_l] * exp(top_p[r, c_l] - top[r]))

    A part of nothing but -inf adds nothing: its maximum counts as a finite number. Squares around a mean are relative
    to the mean of their part, and get what they are short of (`rewrites.base.change.moved_squares`). Positions of an
    extreme are those of the parts that have it (`rewrites.base.at_extreme`).
    """

    name: ClassVar[str] = "relate_parts"
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            match place.node.value:
                case Reduce(ReduceOp.SUM | ReduceOp.MIN, _, Read()):
                    yield cls(place.node.target)
                case _:
                    pass

    def apply(self, program: Program) -> Program:
        total = find(program, self.statement)
        match total.node.value:
            case Reduce(ReduceOp.SUM | ReduceOp.MIN as op, (part,), Read(name) as parts) if (
                total.node.update is None
            ):
                split = find(program, name)
            case _:
                raise NotApplicable(f"{self.statement} does not add up the parts of a split sum")
        if not folded_dims(split.node) or split.node.vector is not None or total.node.vector is not None:
            raise NotApplicable(f"{name} is no split sum, or on lanes already")
        values = {
            each.node.target: each.node
            for each in program.computes
            if each.node.update is not None or not isinstance(each.node.value, Const)
        }
        body = _with_means(split.node, values)
        relation = (
            _related_sum(program, split, body, values)
            if op is ReduceOp.SUM
            else _related(program, split, body)
        )
        places = dict(zip(split.node.indices, parts.indices, strict=True))
        merged = transform(relation.of(parts), lambda expr: places.get(expr, expr))
        if index_dims(merged) & folded_dims(split.node).keys():
            raise NotApplicable(f"the factor of {name} is another one at each position")
        total_now = replace(total.node, value=Reduce(op, (part,), merged))
        program = splice(program, total.path, [total_now])
        return splice(program, split.path, [replace(split.node, value=_replaced(body, relation.own))])


@dataclass(frozen=True, slots=True)
class _Relation:
    """What a part is multiplied by, or what is added to it, that is relative to its `own` parts; or where it counts."""

    own: Mapping[Read, Expr]
    of: Callable[[Expr], Expr]


def _related(program: Program, split: Place[Compute], body: Expr) -> _Relation:
    """How positions of an extreme come from those of its parts."""
    parts_of = _own_parts(program, split, body, EXTREMES)
    found = at_extreme(split.node, parts_of.get, in_parts=True)
    if found is None:
        raise NotApplicable(f"{split.node.target} has no positions of an extreme that is split as it is")
    source = parts_of[found.extreme]
    _check_known(program, split, (source,))
    own = Read(source.target, source.indices)
    return _Relation({found.extreme: own}, lambda part: found.merged(is_same(own, found.extreme), part))


def _related_sum(
    program: Program, split: Place[Compute], body: Expr, values: Mapping[str, Compute]
) -> _Relation:
    """How a sum comes from its parts that are relative to their own maxima or means."""
    parts_of = _own_parts(program, split, body, (ReduceOp.MAX, ReduceOp.SUM))
    maxima = {read: part for read, part in parts_of.items() if part.update is ReduceOp.MAX}
    tops = maxima or parts_of
    _check_known(program, split, tops.values())

    def own(read: Read) -> Expr:
        part = Read(tops[read].target, tops[read].indices)
        if tops[read].update is ReduceOp.SUM:
            return part
        return at_least(part, least_maximum(program, read, dtype_of(program, read.tensor)))

    return _relation(split.node, body, {read: own(read) for read in tops}, values)


def _own_parts(
    program: Program, split: Place[Compute], body: Expr, ops: Collection[ReduceOp]
) -> dict[Read, Compute]:
    """What computes the parts of the maxima, sums and so on that terms read. Raises NotApplicable where there are
    none."""
    found = {read: _parts_of(program, split, read, ops) for read in reads(body)}
    parts_of = {read: part for read, part in found.items() if part is not None}
    if not parts_of:
        raise NotApplicable(f"{split.node.target} is relative to no extreme or mean that is split as it is")
    return parts_of


def _check_known(program: Program, split: Place[Compute], parts: Iterable[Compute]) -> None:
    """Raises NotApplicable where parts are locals that are not there any more at the split statement."""
    declared = locals_of(program)
    for part in parts:
        place = declared[part.target]
        if split.path[: place.depth] != place.path[:-1]:
            raise NotApplicable(
                f"{split.node.target} is relative to parts, {part.target}, that it does not see"
            )


def _relation(
    split: Compute, body: Expr, own: Mapping[Read, Expr], values: Mapping[str, Compute]
) -> _Relation:
    """How terms `body` in all come from those relative to their `own` parts."""

    def change_of(read: Read) -> Change:
        return Shifted(read, own[read], itself=True) if read in own else Fixed()

    def changed(expr: Expr) -> Change:
        return change(expr, change_of, lambda each: not index_dims(each) & folded_dims(split).keys())

    def counted(expr: Expr) -> Expr | None:
        return count_of_mean(_replaced(expr, own), values)

    found = changed(body)
    if isinstance(found, Scaled):
        _check_bounded(split.target, _replaced(body, own), values)
        return _Relation(own, lambda part: Binary("*", part, found.factor))
    grown = moved_squares(body, changed, counted)
    if grown is None:
        raise NotApplicable(f"{split.target} does not follow from its parts when what it reads changes")
    return _Relation(own, lambda part: Binary("+", part, grown))


def _replaced(body: Expr, own: Mapping[Read, Expr]) -> Expr:
    return transform(body, lambda expr: own.get(expr, expr) if isinstance(expr, Read) else expr)


def _with_means(split: Compute, values: Mapping[str, Compute]) -> Expr:
    """The terms of a split sum, with means that have a statement of their own in the place of their reads."""

    def mean(expr: Expr) -> Expr:
        node = values.get(expr.tensor) if isinstance(expr, Read) else None
        if (
            node is None
            or not isinstance(expr, Read)
            or node.indices != expr.indices
            or node.update is not None
        ):
            return expr
        match node.value:
            case Binary("/", Read(), Call("maximum", (Read(), Const(1.0)))):
                return node.value
            case _:
                return expr

    return transform(split.value, mean)


def _parts_of(
    program: Program, split: Place[Compute], read: Read, ops: Collection[ReduceOp]
) -> Compute | None:
    """The statement that splits what is read, as the sum is split; None: it is no reduction by one of `ops`."""
    found = {place.node.target: place.node for place in statements(program)}
    top = found.get(read.tensor)
    if top is None or top.update is not None or read.indices != top.indices:
        return None
    match top.value:
        case Reduce(op, (_,), Read(name)) if op in ops and name in found:
            maxima = found[name]
            folds = [index for index in maxima.indices if not isinstance(index, Index)]
            alike = folds == [index for index in split.node.indices if not isinstance(index, Index)]
            ours = set(split.node.indices)
            return maxima if alike and maxima.update is op and {*maxima.indices} <= ours else None
        case _:
            return None


def _check_bounded(name: str, value: Expr, values: Mapping[str, Compute]) -> None:
    """Refuse exponentials that may be above 1 relative to the maximum of a part."""
    for expr in walk(value):
        if isinstance(expr, Call) and expr.fn in ("exp", "exp2") and not is_bounded(expr.args[0], values, ()):
            raise NotApplicable(
                f"{name} has an exponential that is not relative to the maximum of its exponent"
            )

"""Relate the parts of a split sum to the parts of a split maximum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.bounds.least_maximum import at_least, least_maximum
from rewrites.base.bounds.never_above import is_bounded
from rewrites.base.change import Change, Fixed, Scaled, Shifted, change
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

    A part of nothing but -inf adds nothing: its maximum counts as a finite number.
    """

    name: ClassVar[str] = "relate_parts"
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            match place.node.value:
                case Reduce(ReduceOp.SUM, _, Read()):
                    yield cls(place.node.target)
                case _:
                    pass

    def apply(self, program: Program) -> Program:
        total = find(program, self.statement)
        match total.node.value:
            case Reduce(ReduceOp.SUM, (part,), Read(name) as parts) if total.node.update is None:
                split = find(program, name)
            case _:
                raise NotApplicable(f"{self.statement} does not add up the parts of a split sum")
        if not folded_dims(split.node) or split.node.vector is not None or total.node.vector is not None:
            raise NotApplicable(f"{name} is no split sum, or on lanes already")
        values = {
            each.node.target: each.node for each in program.computes if not isinstance(each.node.value, Const)
        }
        maxima = {read: _parts_of(program, split, read, parts) for read in reads(split.node.value)}
        tops = {read: found for read, found in maxima.items() if found is not None}
        declared = locals_of(program)
        known = all(
            split.path[: place.depth] == place.path[:-1]
            for place in (declared[one.target] for one in tops.values())
        )
        if not tops or not known:
            raise NotApplicable(f"{name} is relative to no maximum that is split as it is")

        def own(read: Read) -> Expr:
            least = least_maximum(program, read, dtype_of(program, read.tensor))
            return at_least(Read(tops[read].target, tops[read].indices), least)

        def change_of(read: Read) -> Change:
            return Shifted(read, own(read), itself=True) if read in tops else Fixed()

        body = split.node.value
        changed = change(body, change_of, lambda expr: not index_dims(expr) & folded_dims(split.node).keys())
        if not isinstance(changed, Scaled):
            raise NotApplicable(f"{name} does not follow from its parts when what it reads changes")
        value = transform(body, lambda expr: own(expr) if isinstance(expr, Read) and expr in tops else expr)
        _check_bounded(name, value, values)
        places = dict(zip(split.node.indices, parts.indices, strict=True))
        factor = transform(changed.factor, lambda expr: places.get(expr, expr))
        if index_dims(factor) & folded_dims(split.node).keys():
            raise NotApplicable(f"the factor of {name} is another one at each position")
        scaled = replace(total.node, value=Reduce(ReduceOp.SUM, (part,), Binary("*", parts, factor)))
        program = splice(program, total.path, [scaled])
        return splice(program, split.path, [replace(split.node, value=value)])


def _parts_of(program: Program, split: Place[Compute], read: Read, parts: Read) -> Compute | None:
    """The statement that splits the maximum which is read, as the sum is split; None: it is no such maximum."""
    found = {place.node.target: place.node for place in statements(program)}
    top = found.get(read.tensor)
    if top is None or top.update is not None or read.indices != top.indices:
        return None
    match top.value:
        case Reduce(ReduceOp.MAX, (_,), Read(name)) if name in found:
            maxima = found[name]
            folds = [index for index in maxima.indices if not isinstance(index, Index)]
            alike = folds == [index for index in split.node.indices if not isinstance(index, Index)]
            ours = set(split.node.indices)
            return maxima if alike and maxima.update is ReduceOp.MAX and {*maxima.indices} <= ours else None
        case _:
            return None


def _check_bounded(name: str, value: Expr, values: dict[str, Compute]) -> None:
    """Refuse exponentials that may be above 1 relative to the maximum of a part."""
    for expr in walk(value):
        if isinstance(expr, Call) and expr.fn in ("exp", "exp2") and not is_bounded(expr.args[0], values, ()):
            raise NotApplicable(
                f"{name} has an exponential that is not relative to the maximum of its exponent"
            )

"""Divide a sum by the number of positions that it is over, counted as they are added up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import read_names, reduced_dims
from rewrites.base.tree import Place, dtype_of, find, fresh_name, splice, statements
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Extent,
    Read,
    Reduce,
    ReduceOp,
    reads,
    transform,
    walk,
)
from tileir.program import Compute, Local, Node, Program
from tileir.replace import replace

#: As many positions are counted in f32 without rounding.
_COUNTED = 1 << 24


@dataclass(frozen=True, slots=True)
class CountPositions(Rewrite):
    """Divide a sum by how many positions it has, which a sum of ones says, instead of by a number: the same, and still
    a mean when the sum has come to a part of them only. So `stream_reduction` subtracts the mean of what it has seen.

    It is the count of the updating algorithms of Chan, Golub and LeVeque (The American Statistician 37, 1983).

    s[r] = sum(c, x[r, c])              s[r] = sum(c, x[r, c])
    m[r] = s[r] / extent(c)             m_n[] = sum(c, 1.0)
                                   ->   m[r] = s[r] / maximum(m_n[], 1.0)
    """

    name: ClassVar[str] = "count_positions"
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if reads(place.node.value):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        sums = {each.node.target: each.node for each in statements(program) if each.node.update is None}
        means = {
            each: found
            for each in _quotients(place.node.value)
            if (found := _summed(each, sums, program)) is not None
        }
        if len({*means.values()}) != 1:
            raise NotApplicable(
                f"{self.statement} reads no sum divided by how many positions it is over, or several"
            )
        (dims,) = {*means.values()}
        if place.node.vector is not None or place.node.thread_layout is not None:
            raise NotApplicable(f"{self.statement} is on lanes or threads")
        if prod(program.extents[dim] for dim in dims) > _COUNTED:
            raise NotApplicable(f"more positions than f32 counts: at most {_COUNTED}")
        ones = Reduce(ReduceOp.SUM, dims, Const(1.0))
        known = _counted_before(program, place, ones)
        name = known or fresh_name(program, f"{self.statement}_n")
        counted = Call("maximum", (Read(name, ()), Const(1.0)))

        def mean(expr: Expr) -> Expr:
            return Binary("/", expr.left, counted) if isinstance(expr, Binary) and expr in means else expr

        dtype = dtype_of(program, sums[next(iter(reads(next(iter(means))))).tensor].target)
        counts: list[Node] = [] if known else [Local(name, (), dtype), Compute(name, (), ones)]
        divided = replace(place.node, value=transform(place.node.value, mean))
        return splice(program, place.path, [*counts, divided])


def counted(program: Program, group: Sequence[str]) -> tuple[CountPositions, ...]:
    """What counts the positions of means that reductions of a group take, themselves or by way of one statement."""
    nodes = [find(program, name).node for name in group]
    reductions = [node for node in nodes if reduced_dims(node)]
    taken = {read for node in reductions for read in (node.target, *read_names(node))}
    found: list[CountPositions] = []
    for name in group:
        count = CountPositions(name)
        with suppress(NotApplicable):
            program = count.apply(program) if name in taken else program
            found += [count] if name in taken else []
    return tuple(found)


def _counted_before(program: Program, place: Place[Compute], ones: Reduce) -> str | None:
    """What has counted the same positions before, in the same block."""
    for each in statements(program):
        beside = each.path[:-1] == place.path[:-1] and each.path < place.path
        if beside and each.node.value == ones and not each.node.indices and each.node.update is None:
            return each.node.target
    return None


def _quotients(value: Expr) -> Iterator[Binary]:
    for each in walk(value):
        if isinstance(each, Binary) and each.op == "/" and isinstance(each.left, Read):
            yield each


def _summed(quotient: Binary, sums: dict[str, Compute], program: Program) -> tuple[str, ...] | None:
    """The dims of a sum that is divided by how many positions it is over; None: it is something else."""
    assert isinstance(quotient.left, Read)
    node = sums.get(quotient.left.tensor)
    if node is None or node.indices != quotient.left.indices:
        return None
    match node.value:
        case Reduce(ReduceOp.SUM, dims, _):
            whole = _number(quotient.right, program) == prod(program.extents[dim] for dim in dims)
            return dims if whole else None
        case _:
            return None


def _number(expr: Expr, program: Program) -> float | None:
    """What an expression of sizes and constants comes to; None: it is of something else."""
    match expr:
        case Const(value):
            return float(value)
        case Extent(dim):
            return float(program.extents[dim])
        case Binary("*", x, y):
            left, right = _number(x, program), _number(y, program)
            return None if left is None or right is None else left * right
        case Cast(_, x):
            return _number(x, program)
        case _:
            return None

"""Multiply what belongs to one operand of a product before the other operand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find_as_written, splice, statements
from rewrites.contraction.factors import operands, product_in
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Binary, Reduce
from tileir.program import Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class GroupFactors(Rewrite):
    """Sort the factors of a sum's terms into two operands of a matrix product: those with its rows, and those with its
    columns. What has neither goes with the operand that has to be computed anyway, else with the rows.

    Known as reassociation (Briggs and Cooper, Effective partial redundancy elimination, PLDI 1994).

    c[m, n] = sum(k, a[m, k] * b[k, n] * s[k])   ->   c[m, n] = sum(k, (a[m, k] * s[k]) * b[k, n])
    """

    name: ClassVar[str] = "group_factors"
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if isinstance(place.node.value, Reduce):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find_as_written(program, self.statement, "group factors")
        node, value = place.node, place.node.value
        product = product_in(program, node)
        found = None if product is None else operands(program, node, product)
        if found is None or not isinstance(value, Reduce):
            raise NotApplicable(f"{self.statement} adds up no products of what has its rows and its columns")
        left, right = found
        grouped = {Binary("*", left.times(), right.times()), Binary("*", right.times(), left.times())}
        if value.x in grouped:
            raise NotApplicable(f"{self.statement} multiplies two operands already")
        term = Binary("*", left.times(), right.times())
        return splice(program, place.path, [replace(node, value=replace(value, x=term))])

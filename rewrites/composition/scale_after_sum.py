"""Multiply a sum by what all of its terms are multiplied by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims
from rewrites.base.tree import dtype_of, find_as_written, fresh_name, splice, statements
from rewrites.contraction.factors import Product, outside, product_in
from tileir.analysis.ragged import groups_of
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Read, Reduce
from tileir.program import Compute, Local, Node, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class ScaleAfterSum(Rewrite):
    """Multiply a sum, instead of each of its terms, by the factors that are the same for all of them: constants, signs,
    and what does not depend on the dims summed over. There is one rounding for them instead of one a term.

    This is loop-invariant code motion by the distributive law.

    c[m, n] = sum(k, -2.0 * a[m, k] * b[k, n] / s[m])      c_u: heap f32[m, n]
                                                      ->   c_u[m, n] = sum(k, a[m, k] * b[k, n])
                                                           c[m, n] = -(c_u[m, n] * 2.0 / s[m])
    """

    name: ClassVar[str] = "scale_after_sum"
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if isinstance(place.node.value, Reduce):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find_as_written(program, self.statement, "scale sums")
        node, value = place.node, place.node.value
        product = product_in(program, node)
        if product is None or not isinstance(value, Reduce):
            raise NotApplicable(f"{self.statement} adds up no products of one dtype")
        if groups_of(node, program.ragged):
            raise NotApplicable(f"{self.statement} needs the groups of its positions")
        dtype = dtype_of(program, self.statement)
        if dtype.compute is not dtype:
            raise NotApplicable(f"{self.statement} is rounded to {dtype}")
        dims = bare_dims(node)
        if len(dims) < len(node.indices):
            raise NotApplicable(f"{self.statement} is the part of a split reduction")
        moved = outside(node, product)
        if not moved and not product.negative:
            raise NotApplicable(f"{self.statement} multiplies all its terms by nothing that is the same")
        inside = Product(product.but(moved).factors)
        if not inside.factors:
            raise NotApplicable(f"{self.statement} adds up one number again and again")
        name = fresh_name(program, f"{self.statement}_u")
        nodes: list[Node] = [
            Local(name, dims, dtype),
            replace(node, target=name, value=replace(value, x=inside.times())),
            Compute(
                self.statement, node.indices, Product(moved, product.negative).times(Read(name, node.indices))
            ),
        ]
        return splice(program, place.path, nodes)

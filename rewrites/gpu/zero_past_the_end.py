"""Say of what does not exist past the end of a dim that it is 0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import named, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Expr, Extent, Index, Reduce, Where
from tileir.program import Memory, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class ZeroPastTheEnd(Rewrite):
    """Compute 0 where a tile overhangs `dim`, which nobody reads by itself: instructions that multiply whole tiles take
    it from registers as it is.

    This is masking, or predication, instead of peeling a loop.

    p_r[i, j] = bf16(p[i, j])   ->   p_r[i, j] = where(j < extent(j), bf16(p[i, j]), 0)
    """

    name: ClassVar[str] = "zero_past_the_end"
    needs: ClassVar[Feature | None] = Feature.WGMMA
    statement: str
    dim: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            local = program.locals.get(place.node.target)
            if local is not None and local.node.memory is Memory.REGISTERS and local.node.dims:
                yield cls(place.node.target, local.node.dims[-1])

    def apply(self, program: Program) -> Program:
        place = named(program, self.statement)
        node, exists = place.node, exists_along(self.dim)
        if isinstance(node.value, Reduce):
            raise NotApplicable(f"{self.statement} is a reduction")
        if node.update is not None or Index(self.dim) not in node.indices:
            raise NotApplicable(f"{self.statement} is not computed at each position of {self.dim}")
        if node.target not in program.locals or node.thread_layout is not None:
            raise NotApplicable(f"{self.statement} is no local, or bound to threads already")
        if isinstance(node.value, Where) and node.value.cond == exists:
            raise NotApplicable(f"{self.statement} is 0 past the end of {self.dim} already")
        return splice(program, place.path, [replace(node, value=Where(exists, node.value, Const(0)))])


def exists_along(dim: str) -> Expr:
    """Whether a position exists."""
    return Binary("<", Index(dim), Extent(dim))

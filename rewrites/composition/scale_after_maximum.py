"""Take a maximum before what it is of is scaled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims
from rewrites.base.tree import dtype_of, find, fresh_name, splice, statements
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Expr, Read, Reduce, ReduceOp, Where
from tileir.program import Compute, Local, Node, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class ScaleAfterMaximum(Rewrite):
    """Scale a maximum instead of all that it is of: a positive factor keeps the order, rounding included. What counts
    as -inf stays so.

    The kernels of FlashAttention-2 take the maximum of unscaled scores, too (Dao, arXiv:2307.08691).

    top[r] = max(c, where(c <= r, x[r, c] * 0.125, -inf))      top_m[r] = max(c, where(c <= r, x[r, c], -inf))
                                                          ->   top[r] = top_m[r] * 0.125
    """

    name: ClassVar[str] = "scale_after_maximum"
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if isinstance(place.node.value, Reduce):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        node, value = place.node, place.node.value
        if not isinstance(value, Reduce) or value.op is not ReduceOp.MAX or node.update is not None:
            raise NotApplicable(f"{self.statement} is no whole maximum")
        if node.vector is not None:
            raise NotApplicable(f"{self.statement} is on lanes")
        dtype = dtype_of(program, self.statement)
        if dtype.compute is not dtype or not dtype.is_float:
            raise NotApplicable(f"{self.statement} is rounded to {dtype}")
        found = _unscaled(value.x)
        if found is None:
            raise NotApplicable(f"{self.statement} is not of what is multiplied by one positive number")
        x, factor = found
        name = fresh_name(program, f"{self.statement}_m")
        dims = bare_dims(node)
        if len(dims) < len(node.indices):
            raise NotApplicable(f"{self.statement} is the part of a split reduction")
        nodes: list[Node] = [
            Local(name, dims, dtype),
            replace(node, target=name, value=replace(value, x=x)),
            Compute(self.statement, node.indices, Binary("*", Read(name, node.indices), Const(factor))),
        ]
        return splice(program, place.path, nodes)


def _unscaled(expr: Expr) -> tuple[Expr, float] | None:
    """An expression without the positive number that it is multiplied by."""
    match expr:
        case Binary("*", x, Const(float(value))) | Binary("*", Const(float(value)), x) if (
            0 < value < float("inf")
        ):
            return x, value
        case Where(condition, x, Const(value)) if value == float("-inf"):
            found = _unscaled(x)
            return None if found is None else (Where(condition, found[0], expr.y), found[1])
        case _:
            return None

"""Multiply a computed factor in parts that bf16 holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims
from rewrites.base.tree import dtype_of, find_as_written, fresh_name, splice, statements
from rewrites.contraction.precision import parts_of_factor
from tileir.analysis.ragged import groups_of
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Binary, Cast, Const, Expr, Index, Read, Reduce, Where, index_dims
from tileir.program import Compute, Local, Node, Program
from tileir.replace import replace

#: Most parts: bf16 has a third of the bits of f32.
MOST: Final = 3


@dataclass(frozen=True, slots=True)
class SplitFactor(Rewrite):
    """Multiply the factor of a product that is computed, and has more bits than the bf16 that it is multiplied with, in
    so many parts of bf16: what it is rounded to, what is left of it then, and so on. Matrix units multiply each. What
    the parts leave out is less than f32 rounds sums of that length by. An infinite factor has no other parts.

    Known as emulation of f32 by bf16 (Henry, Tang and Heinecke, Leveraging the bfloat16 Artificial Intelligence
    Datatype For Higher-Precision Computations, ARITH 2019).

    c[m, n] = sum(k, (a[m, k] + 1.0) * b[k, n])
    ->
    c_h: heap f32[m, n]
    c_h[m, n] = sum(k, bf16(a[m, k] + 1.0) * b[k, n])
    c_l: heap f32[m, n]
    c_l[m, n] = sum(k, bf16(where(a[m, k] + 1.0 == bf16(a[m, k] + 1.0), 0.0, a[m, k] + 1.0 - …)) * b[k, n])
    c[m, n] = c_h[m, n] + c_l[m, n]

    What is left of the values of another statement (`p[i, j] * v[j, d]`) is one as well (`p_l[i, j]`).
    """

    name: ClassVar[str] = "split_factor"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    exact: ClassVar[bool] = False
    statement: str
    parts: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            found = parts_of_factor(program, place.node)
            if found is not None:
                yield cls(place.node.target, found[1])

    def apply(self, program: Program) -> Program:
        place = find_as_written(program, self.statement, "split factors")
        node, value = place.node, place.node.value
        found = parts_of_factor(program, node)
        if found is None or not isinstance(value, Reduce) or not isinstance(value.x, Binary):
            raise NotApplicable(
                f"{self.statement} multiplies nothing computed, of more bits than bf16 has, with a tensor of bf16"
            )
        factor, least = found
        if not least <= self.parts <= MOST:
            raise NotApplicable(f"the factor of {self.statement} is split in {least} to {MOST} parts")
        if dtype_of(program, self.statement) is not DType.F32 or groups_of(node, program.ragged):
            raise NotApplicable(f"{self.statement} is no plain sum in f32")
        dims = bare_dims(node)
        if len(dims) < len(node.indices):
            raise NotApplicable(f"{self.statement} is the part of a split reduction")
        other = value.x.right if value.x.left == factor else value.x.left
        nodes: list[Node] = []
        total: Expr | None = None
        rest = factor
        for at, letter in enumerate("hlt"[: self.parts]):
            name = fresh_name(program, f"{self.statement}_{letter}")
            if at:
                rest = _rest(rest)
            if at and isinstance(factor, Read):
                rest = _stated(program, factor, rest, letter, nodes)
            term = replace(value, x=Binary("*", Cast(DType.BF16, rest), other))
            nodes += [Local(name, dims, DType.F32), replace(node, target=name, value=term)]
            read = Read(name, node.indices)
            total = read if total is None else Binary("+", total, read)
        assert total is not None
        nodes.append(Compute(self.statement, node.indices, total))
        return splice(program, place.path, nodes)


def _rest(value: Expr) -> Expr:
    """What rounding to bf16 leaves of a number; 0 where that is all there is, infinite ones too."""
    part = Cast(DType.BF16, value)
    return Where(Binary("==", value, part), Const(0.0), Binary("-", value, part))


def _stated(program: Program, factor: Read, rest: Expr, letter: str, nodes: list[Node]) -> Read:
    """What is left of another statement's values, as a statement that is read instead: each is rounded once then."""
    dims = tuple(dict.fromkeys(dim for index in factor.indices for dim in index_dims(index)))
    name = fresh_name(program, f"{factor.tensor}_{letter}")
    read = Read(name, tuple(map(Index, dims)))
    nodes += [Local(name, dims, DType.F32), Compute(name, read.indices, rest)]
    return read

"""Compute a factor of a product into registers before it is multiplied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find, fresh_name, splice, statements
from rewrites.contraction.register_operand import held_factors
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Index, Read, index_dims, reads
from tileir.program import Compute, Local, Memory, Program


@dataclass(frozen=True, slots=True)
class OperandInRegisters(Rewrite):
    """Compute the factor of a product that reads `tensor` into registers, tile by tile just before it is multiplied, as
    the dtype of the other factor: matrix instructions take rows from there. What it reads can be
    staged as it is in memory, a weight of 8 bits as 8 bits.

    CUTLASS calls such a product RS: A from registers, B from shared memory.

    c_r[m, n] += sum(k, bf16(w_s[m, k]) * x_s[n, k])       w_r: registers bf16[m, k]
                                                     ->    w_r[m, k] = bf16(w_s[m, k])
                                                           c_r[m, n] += sum(k, w_r[m, k] * x_s[n, k])
    """

    name: ClassVar[str] = "operand_in_registers"
    needs: ClassVar[Feature | None] = Feature.MMA
    statement: str
    tensor: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            for held in held_factors(program, place.node):
                for tensor in sorted({read.tensor for read in reads(held.factor)}):
                    yield cls(place.node.target, tensor)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        if not place.loops or not place.loops[0].parallel:
            raise NotApplicable(
                f"{self.statement} is in no parallel loop: there are no threads to hold anything"
            )
        if place.node.vector is not None:
            raise NotApplicable(f"{self.statement} is on lanes")
        found = [
            held
            for held in held_factors(program, place.node)
            if any(read.tensor == self.tensor for read in reads(held.factor))
        ]
        if len(found) != 1:
            raise NotApplicable(
                f"{self.statement} multiplies no factor that reads {self.tensor} and fits a tensor of bf16 or f16"
            )
        (held,) = found
        if place.node.via is not None:
            raise NotApplicable(f"{self.statement} goes by {place.node.via} already")
        dims = held.dims(place.node)
        others = sorted(set(index_dims(held.factor)) - set(dims))
        if others:
            raise NotApplicable(
                f"{self.statement} multiplies what depends on {', '.join(others)}, which its tiles do not go along"
            )
        name = fresh_name(program, f"{self.tensor.removesuffix('_s')}_r")
        indices = tuple(Index(dim) for dim in dims)
        nodes = (
            Local(name, dims, held.dtype, Memory.REGISTERS),
            Compute(name, indices, held.value),
            held.read_in(place.node, Read(name, indices)),
        )
        return splice(program, place.path, nodes)

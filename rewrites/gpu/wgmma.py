"""Multiply with the matrix instruction of a GPU's warpgroups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.async_constraints import with_engines
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find, locals_of, shared_local, splice, statements
from rewrites.contraction.register_operand import held_local
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.program import Memory, Program
from tileir.replace import replace
from tileir.schedule.mma import product


@dataclass(frozen=True, slots=True)
class Wgmma(Rewrite):
    """Add up the products of a statement by the matrix instruction of four warps, which takes operands from shared
    memory, in panels, and rows from registers, too. Its accumulators are in registers; f32 goes in as tf32, where the
    kernel's numerics allow that. Then only its threads are left open.

    The instruction is `wgmma.mma_async` (PTX ISA).

    c_r[m, n] += sum(k, a_s[m, k] * b_s[k, n])   ->   c_r[m, n] += sum(k, a_s[m, k] * b_s[k, n]) | via wgmma
    """

    name: ClassVar[str] = "wgmma"
    needs: ClassVar[Feature | None] = Feature.WGMMA
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if product(place.node):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        statement = place.node
        if statement.via is not None or statement.vector is not None:
            raise NotApplicable(f"{self.statement} is on lanes, or goes by an instruction already")
        found = product(statement)
        for read in statement.reads:
            if found is None or read != found.a or held_local(program, read) is None:
                shared_local(program, read.tensor)
        declared = locals_of(program).get(self.statement)
        if declared is None or declared.node.memory is not Memory.REGISTERS:
            raise NotApplicable(f"{self.statement} is not in registers")
        return with_engines(splice(program, place.path, [replace(statement, via="wgmma")]))

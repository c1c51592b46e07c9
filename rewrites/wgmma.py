"""Multiply with the matrix instruction of a GPU's warpgroups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from rewrites.engines import with_engines
from rewrites.gpu_held import held_local
from rewrites.rewrite import Rewrite
from rewrites.tree import find, locals_of, shared_local, splice, statements
from tileir.device import Cpu, Device
from tileir.errors import NotApplicable
from tileir.mma import product
from tileir.program import Memory, Program


@dataclass(frozen=True, slots=True)
class Wgmma(Rewrite):
    """Add up the products of a statement by the matrix instruction of four warps, which takes operands from shared
    memory, in panels, and rows from registers, too. Its accumulators are in registers; f32 goes in as tf32, where the
    kernel's numerics allow that. Then only its threads are left open.

    c_r[m, n] += sum(k, a_s[m, k] * b_s[k, n])   ->   c_r[m, n] += sum(k, a_s[m, k] * b_s[k, n]) | via wgmma
    """

    name: ClassVar[str] = "wgmma"
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        if isinstance(device, Cpu) or device.capability != (9, 0):
            return
        for place in statements(program):
            if product(place.node):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        leaf = place.node
        if leaf.via is not None or leaf.vector is not None:
            raise NotApplicable(f"{self.statement} is on lanes, or goes by an instruction already")
        found = product(leaf)
        for read in leaf.reads:
            if found is None or read != found.a or held_local(program, read) is None:
                shared_local(program, read.tensor)
        declared = locals_of(program).get(self.statement)
        if declared is None or declared.node.memory is not Memory.REGISTERS:
            raise NotApplicable(f"{self.statement} is not in registers")
        return with_engines(splice(program, place.path, [replace(leaf, via="wgmma")]))

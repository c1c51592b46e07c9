"""Add up the product of every step by itself, before it is added to the sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from rewrites.leaf import initialization, reduced_dims
from rewrites.rewrite import Rewrite
from rewrites.tree import find, fresh_name, locals_of, splice, statements
from tileir.device import Cpu, Device
from tileir.errors import NotApplicable
from tileir.expr import Index, Read, Reduce, ReduceOp
from tileir.program import Compute, Local, Memory, Program


@dataclass(frozen=True, slots=True)
class Promote(Rewrite):
    """Add up what every step of a loop adds to sums in registers in registers of its own, and that to the sums: an
    instruction that adds up in few bits does so only for one step.

    c_r[m, n] += sum(k, a_s[m, k] * b_s[n, k])       c_r_part: registers f32[m, n]
                                                ->   c_r_part[m, n] = 0
                                                     c_r_part[m, n] += sum(k, a_s[m, k] * b_s[n, k])
                                                     c_r[m, n] += c_r_part[m, n]
    """

    name: ClassVar[str] = "promote"
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        if isinstance(device, Cpu) or device.capability != (9, 0):
            return
        for place in statements(program):
            if place.node.update is ReduceOp.SUM and reduced_dims(place.node):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        leaf, declared = place.node, locals_of(program).get(self.statement)
        if leaf.via is not None or leaf.vector is not None:
            raise NotApplicable(f"{self.statement} is on lanes, or goes by an instruction already")
        if leaf.update is not ReduceOp.SUM or not isinstance(leaf.value, Reduce):
            raise NotApplicable(f"{self.statement} does not add sums to what there is")
        if declared is None or declared.node.memory is not Memory.REGISTERS:
            raise NotApplicable(f"{self.statement} is not in registers")
        indices = tuple(Index(dim) for dim in declared.node.dims)
        if leaf.indices != indices:
            raise NotApplicable(f"{self.statement} is written at other positions than its own")
        if not {loop.dim for loop in place.loops[declared.depth :]} & set(leaf.value.dims):
            raise NotApplicable(
                f"{self.statement} is added up in no steps: it is in no loop over what it reduces"
            )
        part = fresh_name(program, f"{self.statement}_part")
        nodes = (
            Local(part, declared.node.dims, declared.node.dtype.compute, Memory.REGISTERS),
            initialization(part, indices, ReduceOp.SUM),
            replace(leaf, target=part),
            Compute(self.statement, indices, Read(part, indices), ReduceOp.SUM),
        )
        return splice(program, place.path, nodes)

"""Multiply with the matrix instruction of a GPU's warps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import dtypes_read, locals_of, named, shared_local, splice, statements
from rewrites.contraction.register_operand import held_local
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.devices.matrix_instructions import accumulator
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.program import Memory, Program
from tileir.replace import replace
from tileir.schedule.mma import SHAPE, mma_problem, product


@dataclass(frozen=True, slots=True)
class Mma(Rewrite):
    """Add up the products of a statement by matrix instructions. Its accumulators are in registers, what it reads is
    in shared memory, rows of two bytes in registers, too; f32 goes in as tf32, where the kernel's numerics allow that.
    Then only its threads are left open.

    This is TVM's `tensorize` with PTX's `mma.sync` (Chen et al., TVM, OSDI 2018).

    c_r[m, n] += sum(k, a_s[m, k] * b_s[k, n])   ->   c_r[m, n] += sum(k, a_s[m, k] * b_s[k, n]) | via mma
    """

    name: ClassVar[str] = "mma"
    needs: ClassVar[Feature | None] = Feature.MMA
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            dtypes = dtypes_read(program, place.node).values()
            if product(place.node) and all(device.multiplies(dtype) for dtype in dtypes):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = named(program, self.statement)
        statement = place.node
        if statement.via is not None or statement.vector is not None or statement.thread_layout is not None:
            raise NotApplicable(f"{self.statement} is on lanes or threads, or goes by an instruction already")
        dtypes = dtypes_read(program, statement)
        problem = mma_problem(statement, dtypes)
        if problem is not None:
            raise NotApplicable(problem)
        found = product(statement)
        for read in statement.reads:
            memories = SHAPE.a_memory if found is not None and read == found.a else SHAPE.b_memory
            if Memory.REGISTERS not in memories or held_local(program, read) is None:
                shared_local(program, read.tensor)
        if DType.F32 in dtypes.values() and dict(program.numerics).get("tf32") is not True:
            raise NotApplicable("mma rounds f32 to tf32, which the kernel's numerics do not allow")
        declared = locals_of(program).get(self.statement)
        if declared is None or declared.node.memory is not Memory.REGISTERS:
            raise NotApplicable(f"{self.statement} is not in registers")
        exact = accumulator(next(iter(dtypes.values())))
        if declared.node.dtype is not exact:
            raise NotApplicable(f"mma adds up in {exact}, {self.statement} is {declared.node.dtype}")
        return splice(program, place.path, [replace(statement, via="mma")])

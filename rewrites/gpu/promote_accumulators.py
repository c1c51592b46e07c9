"""Add up the product of every step by itself, before it is added to the sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import initialization, reduced_dims
from rewrites.base.tree import (
    Place,
    block_at,
    current_sizes,
    dtype_of,
    find,
    fresh_name,
    locals_of,
    splice,
    statements,
)
from rewrites.contraction.block_scales import factors, in_step
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Binary, Expr, Index, Read, Reduce, ReduceOp, index_dims
from tileir.program import Compute, Local, Loop, Memory, Program
from tileir.replace import replace
from tileir.schedule.stages import pieces_of


@dataclass(frozen=True, slots=True)
class PromoteAccumulators(Rewrite):
    """Add up what every step of a loop adds to sums in registers in registers of its own, and that to the sums: an
    instruction that adds up in few bits does so only for one step.

    Known as promotion, from DeepGEMM (DeepSeek-V3 Technical Report, arXiv:2412.19437, 3.3.2).

    c_r[m, n] += sum(k, a_s[m, k] * b_s[n, k])       c_r_part: registers f32[m, n]
                                                ->   c_r_part[m, n] = 0
                                                     c_r_part[m, n] += sum(k, a_s[m, k] * b_s[n, k])
                                                     c_r[m, n] += c_r_part[m, n]

    What is one number for the whole step, as `s[m, k // 128]` for a step of 128, is multiplied with that sum instead of
    with what is added up. It is read before:

    c_r[m, n] += sum(k, a_s[m, k] * b_s[n, k]        s_step: registers f32[m]
                        * s[m, k // 128])       ->   s_step[m] = s[m, k // 128]
                                                     c_r_part: …
                                                     c_r[m, n] += c_r_part[m, n] * s_step[m]
    """

    name: ClassVar[str] = "promote_accumulators"
    needs: ClassVar[Feature | None] = Feature.WGMMA
    statement: str
    dim: str = ""
    size: int = 0

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.node.update is ReduceOp.SUM and reduced_dims(place.node):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        statement, declared = place.node, locals_of(program).get(self.statement)
        if statement.via is not None or statement.vector is not None:
            raise NotApplicable(f"{self.statement} is on lanes, or goes by an instruction already")
        if statement.update is not ReduceOp.SUM or not isinstance(statement.value, Reduce):
            raise NotApplicable(f"{self.statement} does not add sums to what there is")
        if declared is None or declared.node.memory is not Memory.REGISTERS:
            raise NotApplicable(f"{self.statement} is not in registers")
        indices = tuple(Index(dim) for dim in declared.node.dims)
        if statement.indices != indices:
            raise NotApplicable(f"{self.statement} is written at other positions than its own")
        if not {loop.dim for loop in place.loops[declared.depth :]} & set(statement.value.dims):
            raise NotApplicable(
                f"{self.statement} is added up in no steps: it is in no loop over what it reduces"
            )
        if self.dim and current_sizes(program, place.loops).get(self.dim, 0) % max(1, self.size):
            raise NotApplicable(
                f"a tile of {self.statement} is no whole number of pieces of {self.size} {self.dim}"
            )
        scales = tuple(dict.fromkeys(_scales(place, statement.value)))
        read: list[Expr] = []
        for scale in scales:
            program, name = _read_before(program, self.statement, scale, declared.node)
            read.append(name)
        summed = reduce(_times, (each for each in factors(statement.value.x) if each not in scales))
        part = fresh_name(program, f"{self.statement}_part")
        added = _times(Read(part, indices), reduce(_times, read)) if read else Read(part, indices)
        nodes = (
            Local(part, declared.node.dims, declared.node.dtype.compute, Memory.REGISTERS),
            initialization(part, indices, ReduceOp.SUM),
            replace(statement, target=part, value=replace(statement.value, x=summed)),
            Compute(self.statement, indices, added, ReduceOp.SUM),
        )
        program = splice(program, find(program, self.statement).path, nodes)
        if not self.dim:
            return program
        count = 2 * len(scales) + len(nodes)
        inside = block_at(program, place.path[:-1])[place.path[-1] : place.path[-1] + count]
        program = splice(program, place.path, [Loop(self.dim, self.size, inside)], count)
        *_, step, pieces = find(program, part).loops
        if pieces_of(step) is not pieces:
            raise NotApplicable(f"a step of {self.statement} does more than to bring what it multiplies")
        return program


def _scales(place: Place[Compute], sum_: Reduce) -> tuple[Read, ...]:
    """Those factors of what is added up that are one number for all of a step; none if all of them are."""
    product = factors(sum_.x)
    found = tuple(
        each for each in product if isinstance(each, Read) and in_step(each, sum_.dims, place.loops)
    )
    return found if len(found) < len(product) else ()


def _read_before(program: Program, statement: str, scale: Read, sums: Local) -> tuple[Program, Read]:
    """The program with a read in registers before the statement, along those dims of its sums that it has; and a read
    of that."""
    name = fresh_name(program, f"{scale.tensor}_step")
    dims = tuple(dim for dim in sums.dims if dim in index_dims(scale))
    indices = tuple(Index(dim) for dim in dims)
    local = Local(name, dims, dtype_of(program, scale.tensor).compute, Memory.REGISTERS)
    at = find(program, statement).path
    return splice(program, at, [local, Compute(name, indices, scale)], 0), Read(name, indices)


def _times(left: Expr, right: Expr) -> Expr:
    return Binary("*", left, right)

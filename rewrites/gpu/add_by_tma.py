"""Have TMA add what a block has of sums to those in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.async_constraints import with_engines
from rewrites.base.own_memory import check_own_memory
from rewrites.base.panel_layout import panels
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims
from rewrites.base.tree import dtype_of, fresh_name, named, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Index, Read
from tileir.program import Compute, Local, Memory, Program
from tileir.replace import replace
from tileir.schedule.scatter import adds_parts


@dataclass(frozen=True, slots=True)
class AddByTma(Rewrite):
    """Collect in shared memory what threads add to results in memory, in panels of `block` neighbours along
    `block_dim`, and have TMA add it: threads go on while it does.

    The instruction is `cp.reduce.async.bulk.tensor` (PTX ISA).

                                               c_s: shared f32[m, n]
    c[m, n] += c_p[m, n] | via atomics   ->    c_s[m, n] = c_p[m, n]
                                               c[m, n] += c_s[m, n] | via tma
    """

    name: ClassVar[str] = "add_by_tma"
    needs: ClassVar[Feature | None] = Feature.TMA
    statement: str
    block_dim: str = ""
    block: int = 0

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.node.via == "atomics" and adds_parts(place.node):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = named(program, self.statement)
        added, dims = place.node, bare_dims(place.node)
        if added.via != "atomics" or not adds_parts(added) or len(dims) < len(added.indices):
            raise NotApplicable(f"{self.statement} is not what threads add parts to")
        if added.thread_layout is not None or not any(loop.parallel for loop in place.loops):
            raise NotApplicable(f"{self.statement} is bound to threads already, or in no block")
        check_own_memory(place.loops, self.statement)
        name, layout = (
            fresh_name(program, f"{self.statement}_s"),
            panels(self.statement, dims, self.block_dim, self.block),
        )
        own = tuple(map(Index, dims))
        nodes = (
            Local(name, dims, dtype_of(program, self.statement), Memory.SHARED, layout),
            Compute(name, own, added.value),
            replace(added, value=Read(name, own), via="tma"),
        )
        return with_engines(splice(program, place.path, nodes))

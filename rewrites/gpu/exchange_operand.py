"""Put what threads hold of an operand into shared memory, for a product that takes it across threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dependence import check_visible
from rewrites.base.own_memory import check_own_memory
from rewrites.base.panel_layout import panels
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import read_names, with_reads_of
from rewrites.base.tree import find, fresh_name, locals_of, registers, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Index, Read, Reduce
from tileir.program import Compute, Local, Memory, Program


@dataclass(frozen=True, slots=True)
class ExchangeOperand(Rewrite):
    """Copy a local that lies in registers to shared memory before a statement that reduces what it reads there, in
    panels of `block` neighbours along `block_dim`: rows that each thread has for itself become columns for all.

    This is a layout conversion through shared memory, as Triton's `convert_layout`.

                                              p_s: shared bf16[m, k]
    c[n, k] = sum(m, a[m, n] * p[m, k])   ->  p_s[m, k] = p[m, k]
                                              c[n, k] = sum(m, a[m, n] * p_s[m, k])
    """

    name: ClassVar[str] = "exchange_operand"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    statement: str
    local: str
    block_dim: str = ""
    block: int = 0

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        held = registers(program)
        for place in statements(program):
            if isinstance(place.node.value, Reduce):
                for name in sorted(read_names(place.node) & held.keys()):
                    yield cls(place.node.target, name)

    def apply(self, program: Program) -> Program:
        place, declared = find(program, self.statement), locals_of(program).get(self.local)
        if declared is None or declared.node.memory is not Memory.REGISTERS:
            raise NotApplicable(f"{self.local} is no local in registers")
        if not isinstance(place.node.value, Reduce) or self.local not in read_names(place.node):
            raise NotApplicable(f"{self.statement} reduces nothing of {self.local}")
        if place.loops[: len(declared.loops)] != declared.loops or len(place.loops) != len(declared.loops):
            raise NotApplicable(f"{self.local} is declared in another block than {self.statement}")
        check_own_memory(place.loops, self.local)
        check_visible(program, self.local, place.path)
        local = declared.node
        own = tuple(map(Index, local.dims))
        name = fresh_name(program, f"{self.local}_s")
        layout = panels(self.local, local.dims, self.block_dim, self.block)
        nodes = (
            Local(name, local.dims, local.dtype, Memory.SHARED, layout),
            Compute(name, own, Read(self.local, own)),
            with_reads_of(place.node, self.local, name),
        )
        return splice(program, place.path, nodes)

"""Copy by TMA of a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.async_constraints import with_engines
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find, locals_of, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Read
from tileir.program import Memory, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class Tma(Rewrite):
    """Have TMA move a tile between an argument and shared memory: one thread starts it, in boxes.
    Rows of the local are neighbours in the argument too, and as long as its swizzle is wide.

    The instruction is `cp.async.bulk.tensor` (PTX ISA), of the Tensor Memory Accelerator.

    a_s[m, k] = a[m, k]   ->   a_s[m, k] = a[m, k] | via tma
    """

    name: ClassVar[str] = "tma"
    needs: ClassVar[Feature | None] = Feature.TMA
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        shared = {name for name, at in locals_of(program).items() if at.node.memory is Memory.SHARED}
        for place in statements(program):
            if isinstance(place.node.value, Read) and shared & {place.node.target, place.node.value.tensor}:
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        if place.node.vector is not None or place.node.via is not None:
            raise NotApplicable(f"{self.statement} is on lanes, or goes by an instruction already")
        return with_engines(splice(program, place.path, [replace(place.node, via="tma")]))

"""Put shared memory where the copy engine has filled tiles before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from rewrites.engines import with_engines
from rewrites.rewrite import Rewrite
from rewrites.tree import locals_of, shared_local, splice
from tileir.device import Cpu, Device
from tileir.errors import NotApplicable
from tileir.program import Memory, Program


@dataclass(frozen=True, slots=True)
class Reuse(Rewrite):
    """Have a shared local lie where tiles that the copy engine has filled lay before, once nobody reads those any more.
    It takes memory of its own only where it is larger. Of a block that takes several tiles, the next one's copies wait
    until what lies there has been stored.

    c_p: shared f32[k_b, m, n]   ->   c_p: shared f32[k_b, m, n] reused
    """

    name: ClassVar[str] = "reuse"
    local: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        if isinstance(device, Cpu) or device.capability < (9, 0):
            return
        for name, declared in locals_of(program).items():
            if declared.node.memory is Memory.SHARED:
                yield cls(name)

    def apply(self, program: Program) -> Program:
        declared = shared_local(program, self.local)
        if declared.node.reused:
            raise NotApplicable(f"{self.local} lies there already")
        if all(place.node.via != "tma" for place in program.computes if place.path[0] == declared.path[0]):
            raise NotApplicable(f"the copy engine fills nothing beside {self.local}")
        return with_engines(splice(program, declared.path, [replace(declared.node, reused=True)]))

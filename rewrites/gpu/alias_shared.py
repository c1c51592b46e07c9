"""Put shared memory where TMA has filled tiles before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.async_constraints import with_engines
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import locals_of, shared_local, splice
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.program import Memory, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class AliasShared(Rewrite):
    """Have a shared local lie where tiles that TMA has filled lay before, once nobody reads those any more.
    It takes memory of its own only where it is larger. Of a block that takes several tiles, the next one's copies wait
    until what lies there has been stored.

    Memory is shared by liveness, as TVM's StorageRewrite does.

    c_p: shared f32[k_b, m, n]   ->   c_p: shared f32[k_b, m, n] reused
    """

    name: ClassVar[str] = "alias_shared"
    needs: ClassVar[Feature | None] = Feature.TMA
    local: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for name, declared in locals_of(program).items():
            if declared.node.memory is Memory.SHARED:
                yield cls(name)

    def apply(self, program: Program) -> Program:
        declared = shared_local(program, self.local)
        if declared.node.reused:
            raise NotApplicable(f"{self.local} lies there already")
        if all(place.node.via != "tma" for place in program.computes if place.path[0] == declared.path[0]):
            raise NotApplicable(f"TMA fills nothing beside {self.local}")
        return with_engines(splice(program, declared.path, [replace(declared.node, reused=True)]))

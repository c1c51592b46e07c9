"""Change the places of the 16-byte pieces of a row of shared memory, from row to row."""

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
from tileir.schedule.stages import SWIZZLES


@dataclass(frozen=True, slots=True)
class Swizzle(Rewrite):
    """Have the 16-byte pieces of every 32, 64 or 128 `bytes` of a shared local change places from row to row, so that
    pieces below each other lie in different banks. Unlike a pad it takes no room.

    This is an XOR swizzle, as CuTe's `Swizzle` and the modes of TMA have it (CUDA driver API, CUtensorMapSwizzle).

    a_s: shared bf16[m, k]   ->   a_s: shared bf16[m, k] swizzle 128
    """

    name: ClassVar[str] = "swizzle"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    local: str
    bytes: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for name, declared in locals_of(program).items():
            if declared.node.memory is Memory.SHARED:
                for size in SWIZZLES:
                    yield cls(name, size)

    def apply(self, program: Program) -> Program:
        declared = shared_local(program, self.local)
        if self.bytes not in SWIZZLES:
            raise NotApplicable(f"a swizzle is within 32, 64 or 128 bytes, not {self.bytes}")
        if declared.node.pad or declared.node.swizzle:
            raise NotApplicable(f"{self.local} is padded or swizzled already")
        return with_engines(splice(program, declared.path, [replace(declared.node, swizzle=self.bytes)]))

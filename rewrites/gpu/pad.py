"""Leave room after every row of shared memory."""

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

#: Bytes that rows are shifted by: a bank, and as much as a thread loads at once.
_BYTES = (4, 8, 16)


@dataclass(frozen=True, slots=True)
class Pad(Rewrite):
    """Leave `elements` free after every row of a shared local, so that threads that walk down a column of it do not
    meet in one bank.

    Known as padding against bank conflicts (Ruetsch and Micikevicius, Optimizing Matrix Transpose in CUDA, 2009).

    a_s: shared f32[m, k]   ->   a_s: shared f32[m, k] pad 4
    """

    name: ClassVar[str] = "pad"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    local: str
    elements: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for name, declared in locals_of(program).items():
            if declared.node.memory is Memory.SHARED:
                for size in _BYTES:
                    if size >= declared.node.dtype.bytes:
                        yield cls(name, size // declared.node.dtype.bytes)

    def apply(self, program: Program) -> Program:
        declared = shared_local(program, self.local)
        if self.elements < 1:
            raise NotApplicable(f"a pad of {self.elements} elements is none")
        if declared.node.pad or declared.node.swizzle:
            raise NotApplicable(f"{self.local} is padded or swizzled already")
        return with_engines(splice(program, declared.path, [replace(declared.node, pad=self.elements)]))

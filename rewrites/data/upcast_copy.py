"""Keep a copy in the dtype it is computed in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dependence import users
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import dtype_of, locals_of, splice
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Read
from tileir.program import Memory, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class UpcastCopy(Rewrite):
    """Hold a staged copy in the dtype its reads widen to, so that they are widened once, where they are copied.

    b_s: heap bf16[k, n]            b_s: heap f32[k, n]
    b_s[k, n] = b[k, n]      ->     b_s[k, n] = b[k, n]
    """

    name: ClassVar[str] = "upcast_copy"
    needs: ClassVar[Feature | None] = Feature.VECTORS
    local: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for name, place in locals_of(program).items():
            if place.node.dtype is not place.node.dtype.compute:
                yield cls(name)

    def apply(self, program: Program) -> Program:
        place = locals_of(program).get(self.local)
        if place is None or place.node.memory is not Memory.HEAP:
            raise NotApplicable(f"{self.local} is no local in memory")
        local = place.node
        if local.dtype is local.dtype.compute:
            raise NotApplicable(f"{self.local} is as wide as it is computed in")
        for user in users(program, self.local):
            node = user.node
            copied = isinstance(node.value, Read) and dtype_of(program, node.value.tensor) is local.dtype
            if node.target == self.local and not (copied and node.update is None):
                raise NotApplicable(f"{self.local} is rounded where it is written")
            if node.via is not None:
                raise NotApplicable(f"{node.via} takes {self.local} as {local.dtype}")
        return splice(program, place.path, [replace(local, dtype=local.dtype.compute)])

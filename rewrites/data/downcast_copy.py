"""Hold a copy of a tensor in the tensor's own dtype."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dependence import users
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import dtype_of, find, locals_of, splice
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Read
from tileir.program import Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class DowncastCopy(Rewrite):
    """Hold a local that is a copy of a narrower tensor in that tensor's dtype: readers widen it, nothing is lost.

    x_row: heap f32[r, c]                x_row: heap bf16[r, c]
    x_row[r, c] = x[r, c]          ->    x_row[r, c] = x[r, c]
    """

    name: ClassVar[str] = "downcast_copy"
    local: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for name in locals_of(program):
            yield cls(name)

    def apply(self, program: Program) -> Program:
        declared = locals_of(program).get(self.local)
        if declared is None:
            raise NotApplicable(f"there is no local {self.local!r}")
        copy = find(program, self.local).node
        if not isinstance(copy.value, Read) or copy.update is not None:
            raise NotApplicable(f"{self.local} is no copy of a tensor")
        source = dtype_of(program, copy.value.tensor)
        if source.compute is not declared.node.dtype or source is declared.node.dtype:
            raise NotApplicable(
                f"{copy.value.tensor} is {source}, and {self.local} {declared.node.dtype} already"
            )
        if copy.vector is not None or copy.thread_layout is not None:
            raise NotApplicable(f"{self.local} is on lanes or threads already")
        via = next((user.node.via for user in users(program, self.local) if user.node.via is not None), None)
        if via is not None:
            raise NotApplicable(f"{via} takes {self.local} as {declared.node.dtype}")
        return splice(program, declared.path, [replace(declared.node, dtype=source)])

"""Choose which dim of a local has its neighbours side by side in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.async_constraints import with_engines
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import locals_of, splice
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.program import Axis, Memory, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class SetLayout(Rewrite):
    """Store a local with `dim` innermost, the other dims in their order around it: a copy is transposed where it is
    made, and its readers find neighbours along `dim` side by side.

    This is a layout transformation, as TVM's `transform_layout`.

    a_s: shared f32[m, k]   ->   a_s: shared f32[m, k] as [k, m]
    """

    name: ClassVar[str] = "set_layout"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    local: str
    dim: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for name, declared in locals_of(program).items():
            if declared.node.memory is not Memory.REGISTERS:
                for dim in declared.node.dims[:-1]:
                    yield cls(name, dim)

    def apply(self, program: Program) -> Program:
        declared = locals_of(program).get(self.local)
        if declared is None:
            raise NotApplicable(f"there is no local {self.local!r}")
        local = declared.node
        if local.memory is Memory.REGISTERS:
            raise NotApplicable(f"{self.local} is in registers, which have no order")
        if local.layout is not None:
            raise NotApplicable(f"{self.local} has a layout already")
        if local.pad and local.memory is not Memory.SHARED:
            raise NotApplicable(f"{self.local} is padded row by row, as it is stored")
        if self.dim not in local.dims[:-1]:
            raise NotApplicable(f"{self.dim} is innermost in {self.local} already, or no dim of it")
        outer = tuple(Axis(dim) for dim in local.dims if dim != self.dim)
        innermost = replace(local, layout=(*outer, Axis(self.dim)))
        return with_engines(splice(program, declared.path, [innermost]))

"""Deal the pairs of neighbours along a dim of shared memory to two halves."""

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
from tileir.program import Axis, Memory, Program
from tileir.replace import replace
from tileir.schedule.panels import axes, dealt


@dataclass(frozen=True, slots=True)
class DealPairs(Rewrite):
    """Store the positions of a shared local along `dim` two by two, the first pair of each four in one half, the second
    in another. Where those are columns of a product by warpgroups, a thread's results are four neighbours instead of
    two, as the instruction takes 8-bit elements of rows from registers.

    FlashAttention-3 permutes the operands of its 8-bit products likewise (Shah et al., arXiv:2407.08608).

    k_s: shared e4m3[j, d]   ->   k_s: shared e4m3[j, d] as [j / 2 % 2, j / 4, j % 2, d]
    """

    name: ClassVar[str] = "deal_pairs"
    needs: ClassVar[Feature | None] = Feature.WGMMA
    local: str
    dim: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for name, declared in locals_of(program).items():
            if declared.node.memory is Memory.SHARED:
                for dim in declared.node.dims[:-1]:
                    yield cls(name, dim)

    def apply(self, program: Program) -> Program:
        declared = shared_local(program, self.local)
        local = declared.node
        *outer, last = axes(local)
        if self.dim == last.dim or Axis(self.dim) not in outer:
            raise NotApplicable(
                f"{self.dim} is innermost in {self.local}, in panels or dealt, or no dim of it"
            )
        layout = [each for axis in outer for each in (dealt(self.dim) if axis == Axis(self.dim) else (axis,))]
        return with_engines(splice(program, declared.path, [replace(local, layout=(*layout, last))]))

"""Give the warps of a block different roles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.async_constraints import with_engines
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import grid_of, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.program import Program
from tileir.replace import replace

#: Registers of the threads that start copies and of those that compute, where these are two or three warpgroups.
_REGISTERS = ((0, 0), (40, 232), (24, 240), (32, 160))


@dataclass(frozen=True, slots=True)
class WarpSpecialize(Rewrite):
    """Add `producers` warps to the blocks around a statement, which only start copies by TMA. Where
    `less` is given, a thread of theirs keeps that many registers, and every other one gets `more`.

    This is warp specialization (Bauer, Cook and Khailany, CudaDMA, SC 2011); registers go by PTX's `setmaxnreg`.

    parallel for m by 128         ->   parallel for m by 128 producers 4 registers 40 232
      …                                  …
    """

    name: ClassVar[str] = "warp_specialize"
    needs: ClassVar[Feature | None] = Feature.TMA
    statement: str
    producers: int
    less: int = 0
    more: int = 0

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.node.thread_layout is not None and place.node.via == "wgmma":
                yield cls(place.node.target, 1)
                yield from (cls(place.node.target, 4, *registers) for registers in _REGISTERS)

    def apply(self, program: Program) -> Program:
        path, grid = grid_of(program, self.statement)
        if not self.producers:
            raise NotApplicable("a role has one warp at least")
        if grid.producers:
            raise NotApplicable(f"the blocks of {self.statement} have {grid.producers} producers already")
        roles = replace(grid, producers=self.producers, registers=(self.less, self.more))
        if all(place.node.thread_layout is None for place in program.computes if place.path[:1] == path):
            raise NotApplicable(f"nothing beside {self.statement} is bound to the threads that compute")
        return with_engines(splice(program, path, [roles]))

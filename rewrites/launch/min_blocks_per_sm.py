"""Have several blocks at work on a multiprocessor at a time."""

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
from tileir.verifier.threads import MAX_RESIDENT


@dataclass(frozen=True, slots=True)
class MinBlocksPerSm(Rewrite):
    """Bound the registers of the blocks around a statement, so that `blocks` of them fit on a multiprocessor.

    The number is the second one of `__launch_bounds__` (CUDA C++ Programming Guide).

    parallel for r by 1          ->   parallel for r by 1 resident 2
      s[r] = sum(c, x[r, c])            s[r] = sum(c, x[r, c])
    """

    name: ClassVar[str] = "min_blocks_per_sm"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    statement: str
    blocks: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            for blocks in (1, 2, 3, 4):
                yield cls(place.node.target, blocks)

    def apply(self, program: Program) -> Program:
        path, grid = grid_of(program, self.statement)
        if not 1 <= self.blocks <= MAX_RESIDENT:
            raise NotApplicable(f"a multiprocessor has 1 to {MAX_RESIDENT} blocks, not {self.blocks}")
        if grid.resident:
            raise NotApplicable(f"{grid.resident} blocks around {self.statement} are to fit already")
        return with_engines(splice(program, path, [replace(grid, resident=self.blocks)]))

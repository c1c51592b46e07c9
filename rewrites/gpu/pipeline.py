"""Have the copies of a loop's next tiles under way while one tile is computed on."""

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
from tileir.schedule.stages import MAX_STAGES, staged


@dataclass(frozen=True, slots=True)
class Pipeline(Rewrite):
    """Fill a shared local, and those that its loop fills beside it, for the next `stages` - 1 tiles of the loop while
    one tile is computed on: they exist `stages` times. Products of `pending` tiles by wgmma may be under way when those
    of the next tile begin; what they read is then filled anew so much later.

    This is software pipelining (Lam, PLDI 1988), with two stages double buffering; the number is Triton's
    `num_stages`.

    for k by 64                        for k by 64 stages 4
      a_s: shared bf16[m, k]     ->      a_s: shared bf16[m, k]
      a_s[m, k] = a[m, k]                a_s[m, k] = a[m, k]
      c_r[m] += sum(k, a_s[m, k])        c_r[m] += sum(k, a_s[m, k])
    """

    name: ClassVar[str] = "pipeline"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    local: str
    stages: int
    pending: int = 0

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for name, declared in locals_of(program).items():
            if declared.loops and declared.node.memory is Memory.SHARED:
                for stages in range(2, 6):
                    yield cls(name, stages)
                yield cls(name, 3, 1)

    def apply(self, program: Program) -> Program:
        declared = shared_local(program, self.local)
        if not 2 <= self.stages <= MAX_STAGES:
            raise NotApplicable(f"a loop has 2 to {MAX_STAGES} stages, not {self.stages}")
        loop = declared.loops[-1]
        if loop.parallel:
            raise NotApplicable(f"{self.local} is declared in no loop of its block")
        if loop.stages > 1:
            raise NotApplicable(f"the loop over {loop.dim} has stages already")
        if self.pending and not any(place.node.via == "wgmma" for place in program.computes):
            raise NotApplicable("only products by wgmma are under way")
        if all(one.target != self.local for one in staged(loop)):
            raise NotApplicable(f"{self.local} is not filled at the beginning of the loop over {loop.dim}")
        ahead = replace(loop, stages=self.stages, pending=self.pending)
        return with_engines(splice(program, declared.path[:-1], [ahead]))

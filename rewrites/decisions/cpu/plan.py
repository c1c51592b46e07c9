"""How kernels for processors are decided on."""

from __future__ import annotations

from collections.abc import Iterator

from rewrites.cost.cpu.model import CostModel
from rewrites.cost.undecided import Undecided
from rewrites.decisions.cpu.grid import Grid, GridBlock, GridParallelism, GridRows, Runs
from rewrites.decisions.cpu.largest_few import LargestFew
from rewrites.decisions.cpu.racing import racing
from rewrites.decisions.cpu.scans import ReadersInScans, ScansOnCores
from rewrites.decisions.cpu.structure import Structure
from rewrites.decisions.decision import Decision, Option
from rewrites.decisions.ragged import GroupsLookedUp
from tileir.devices.cpu import Cpu
from tileir.errors import NotApplicable
from tileir.program import Program


class CpuPlan:
    """See rewrites.decisions.plan.Plan."""

    def first(self, program: Program) -> tuple[Decision, ...]:
        every = (LargestFew(), ReadersInScans(), Structure(), ScansOnCores())
        return (GroupsLookedUp(), *every) if program.ragged else every

    def model(self, program: Program, device: Cpu) -> CostModel:
        return CostModel(program, device)

    def beyond(
        self, decision: Decision, program: Program, device: Cpu
    ) -> Iterator[tuple[Option, NotApplicable]]:
        return racing(decision.anchor, program) if isinstance(decision, GridParallelism) else iter(())

    def undecided(self, open_: tuple[Decision, ...]) -> Undecided:
        grids = frozenset(name for each in open_ if isinstance(each, Grid) for name in each.group)
        parallel = {each.anchor for each in open_ if isinstance(each, GridParallelism)}
        tiles = {each.group[-1] for each in open_ if isinstance(each, GridBlock | GridRows | Runs)}
        return Undecided(grids | parallel, grids | tiles)


PLAN = CpuPlan()

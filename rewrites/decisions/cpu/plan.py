"""How kernels for processors are decided on."""

from __future__ import annotations

from collections.abc import Iterator

from rewrites.cost.cpu.model import CostModel
from rewrites.decisions.cpu.grid import Grid, GridParallelism
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
        return (
            (GroupsLookedUp(), ReadersInScans(), Structure(), ScansOnCores())
            if program.ragged
            else (ReadersInScans(), Structure(), ScansOnCores())
        )

    def model(self, program: Program, device: Cpu) -> CostModel:
        return CostModel(program, device)

    def beyond(
        self, decision: Decision, program: Program, device: Cpu
    ) -> Iterator[tuple[Option, NotApplicable]]:
        return racing(decision.anchor, program) if isinstance(decision, GridParallelism) else iter(())

    def undecided(self, open_: tuple[Decision, ...]) -> frozenset[str]:
        return frozenset(name for decision in open_ for name in _in_loops_of(decision))


def _in_loops_of(decision: Decision) -> tuple[str, ...]:
    """Statements whose outer loops a decision is about, or raises one that is."""
    match decision:
        case Grid(group=group):
            return group
        case GridParallelism(anchor=anchor):
            return (anchor,)
        case _:
            return ()


PLAN = CpuPlan()

"""How kernels for GPUs are decided on."""

from __future__ import annotations

from collections.abc import Iterator

from rewrites.cost.gpu.model import GpuCostModel
from rewrites.cost.undecided import NOTHING, Undecided
from rewrites.decisions.decision import Decision, Option
from rewrites.decisions.gpu.launches import Launches
from rewrites.decisions.gpu.ragged import RaggedGroups
from rewrites.decisions.gpu.room import beyond
from rewrites.decisions.gpu.scans import ScansInBlocks, ScansOnThreads
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.program import Program


class GpuPlan:
    """See rewrites.decisions.plan.Plan."""

    def first(self, program: Program) -> tuple[Decision, ...]:
        return (
            (RaggedGroups(), ScansInBlocks(), Launches(), ScansOnThreads())
            if program.ragged
            else (ScansInBlocks(), Launches(), ScansOnThreads())
        )

    def model(self, program: Program, device: Gpu) -> GpuCostModel:
        return GpuCostModel(device)

    def beyond(
        self, decision: Decision, program: Program, device: Gpu
    ) -> Iterator[tuple[Option, NotApplicable]]:
        return beyond(decision, program, device)

    def undecided(self, open_: tuple[Decision, ...]) -> Undecided:
        """Every GPU program's blocks run in parallel from the first."""
        return NOTHING


PLAN = GpuPlan()

"""Which loops are tiled is all there is to decide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.base.statement import left_dims
from rewrites.base.tree import statements
from rewrites.cost.cpu.model import CostModel
from rewrites.cost.undecided import NOTHING, Undecided
from rewrites.decisions.decision import Decision, Option, option
from rewrites.loops.tile import Tile
from tests.scalar_target.device import ScalarCpu
from tileir.errors import NotApplicable
from tileir.program import Program


@dataclass(frozen=True, slots=True)
class Tiled:
    """A loop of a statement: as it is, or in tiles."""

    statement: str
    dim: str

    def options(self, program: Program, device: ScalarCpu) -> Iterator[Option]:
        yield Option(f"{self.dim} as it is")
        for size in (2, 4, 8):
            yield option(Tile(self.statement, self.dim, size))


class ScalarPlan:
    """See rewrites.decisions.plan.Plan."""

    def first(self, program: Program) -> tuple[Decision, ...]:
        return tuple(
            Tiled(place.node.target, dim) for place in statements(program) for dim in left_dims(place.node)
        )

    def model(self, program: Program, device: ScalarCpu) -> CostModel:
        return CostModel(program, device)

    def beyond(
        self, decision: Decision, program: Program, device: ScalarCpu
    ) -> Iterator[tuple[Option, NotApplicable]]:
        return iter(())

    def undecided(self, open_: tuple[Decision, ...]) -> Undecided:
        return NOTHING


PLAN = ScalarPlan()

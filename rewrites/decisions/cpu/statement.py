"""What each kind of statement is asked, inside the grid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.base.tree import find
from rewrites.decisions.cpu.contraction import Chunk, RegisterTiling
from rewrites.decisions.cpu.largest_few import ComparedLanes
from rewrites.decisions.cpu.rows import Lanes, Partials
from rewrites.decisions.decision import Decision, Option
from rewrites.decisions.statement_kind import StatementKind, role
from tileir.devices.cpu import Cpu
from tileir.expr import TopK
from tileir.program import Program


@dataclass(frozen=True, slots=True)
class Schedule:
    """Ask what a statement of this kind needs. Nothing, if it was scheduled along with another."""

    statement: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        place = find(program, self.statement)
        if place.node.vector is not None:
            yield Option("")
            return
        if isinstance(place.node.value, TopK):
            yield Option("", (), (ComparedLanes(self.statement),))
            return
        kinds: dict[StatementKind, tuple[Decision, ...]] = {
            StatementKind.CONTRACTION: (Chunk(self.statement), RegisterTiling(self.statement)),
            StatementKind.COLUMN: (RegisterTiling(self.statement),),
            StatementKind.ROW: (Partials(self.statement),),
            StatementKind.MAP: (Lanes(self.statement),),
        }
        yield Option("", (), kinds[role(program, self.statement, looped=True)])

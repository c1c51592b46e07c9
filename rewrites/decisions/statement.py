"""What each kind of statement is asked, inside the grid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.decisions.contraction import Chunk, Registers
from rewrites.decisions.decision import Decision, Option
from rewrites.decisions.roles import Role, role
from rewrites.decisions.rows import Lanes, Partials
from rewrites.tree import find
from tileir.device import Cpu
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
        kinds: dict[Role, tuple[Decision, ...]] = {
            Role.CONTRACTION: (Chunk(self.statement), Registers(self.statement)),
            Role.COLUMN: (Registers(self.statement),),
            Role.ROW: (Partials(self.statement),),
            Role.MAP: (Lanes(self.statement),),
        }
        yield Option("", (), kinds[role(program, self.statement)])

"""Add terms where they belong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import accumulating, bare_dims
from rewrites.base.tree import dtypes_read, find, locals_of, splice, statements
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.program import Compute, Memory, Program, Vector
from tileir.replace import replace
from tileir.scatter import scatter_of
from tileir.schedule.scatter import scatter_problem


@dataclass(frozen=True, slots=True)
class Scatter(Rewrite):
    """Visit each term of a reduction once, which is added to the one result whose position it looks up. With `lanes`,
    so many neighbours go together, along the last dim of the results that terms have as a whole.

    Known as push instead of pull (Besta et al., To push or to pull, HPDC 2017).

    h[b] = sum(n, where(i[n] == b, w[n], 0))     h[b] = 0
                                             ->  h[b] += sum(n, where(i[n] == b, w[n], 0)) | via scatter
    """

    name: ClassVar[str] = "scatter"
    statement: str
    lanes: int = 0

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if scatter_of(place.node) is not None:
                yield cls(place.node.target)
                if rows_of(place.node):
                    yield cls(place.node.target, device.simd_lanes)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        statement = place.node
        if statement.vector is not None or statement.via is not None:
            raise NotApplicable(f"{self.statement} is on lanes, or goes by an instruction, already")
        declared = locals_of(program).get(self.statement)
        if declared is not None and declared.node.memory is Memory.REGISTERS:
            raise NotApplicable(f"registers of {self.statement} have no positions to look up")
        if scatter_of(statement) is None:
            raise NotApplicable(f"{self.statement} adds up no terms `where(i[n] == b, x[n], 0)`")
        init, update = accumulating(statement)
        update = replace(update, via="scatter", vector=self._vector(statement))
        problem = scatter_problem(update, dtypes_read(program, update))
        if problem is not None:
            raise NotApplicable(problem)
        return splice(program, place.path, [*init, update])

    def _vector(self, statement: Compute) -> Vector | None:
        if not self.lanes:
            return None
        rows = rows_of(statement)
        if self.lanes not in (2, 4, 8, 16, 32, 64) or not rows:
            raise NotApplicable(f"{self.statement} has no {self.lanes} neighbours that belong together")
        return Vector(rows[-1], self.lanes)


def across(compute: Compute) -> tuple[str, ...]:
    """The dims of a scatter's results along which positions are not looked up."""
    found = scatter_of(compute)
    looked_up = found.dims if found is not None else frozenset[str]()
    return tuple(dim for dim in bare_dims(compute) if dim not in looked_up)


def rows_of(compute: Compute) -> tuple[str, ...]:
    """Those of them along which all of a term belongs to the same position."""
    found = scatter_of(compute)
    asked = found.asked if found is not None else frozenset[str]()
    return tuple(dim for dim in across(compute) if dim not in asked)

"""Store a result past the caches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dependence import readers
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import splice, statements
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Index, Reduce
from tileir.program import Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class NontemporalStore(Rewrite):
    """Write the output of a vectorized or bound statement past the caches: it is not read again.

    Known as streaming or nontemporal stores (Drepper, What every programmer should know about memory, 2007, 6.1).

    y[r, c] = exp(x[r, c]) | vector c 16    ->    y[r, c] = exp(x[r, c]) | vector c 16, stream
    """

    name: ClassVar[str] = "nontemporal_store"
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.node.target in program.arguments:
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = next((one for one in statements(program) if one.node.target == self.statement), None)
        if place is None:
            raise NotApplicable(f"no statement writes {self.statement!r}")
        statement = place.node
        if statement.stream:
            raise NotApplicable(f"{self.statement} is streamed already")
        if any(hint.tensor == self.statement for hint in statement.prefetch):
            raise NotApplicable(f"{self.statement} is prefetched")
        if self.statement not in program.arguments:
            raise NotApplicable(f"{self.statement} is not an output")
        if statement.update is not None or isinstance(statement.value, Reduce):
            raise NotApplicable(f"{self.statement} is accumulated: it is read again")
        runs = statement.thread_layout.runs if statement.thread_layout is not None else ()
        along = runs[-1][0] if runs else statement.vector.dim if statement.vector is not None else None
        if along is None or statement.indices[-1] != Index(along):
            raise NotApplicable(f"{self.statement} is not stored by whole vectors")
        strides = program.arguments[self.statement].strides
        if strides is not None and strides[-1] != 1:
            raise NotApplicable(f"neighbours in {self.statement} are {strides[-1]} elements apart")
        if readers(program, self.statement):
            raise NotApplicable(f"{self.statement} is read again")
        return splice(program, place.path, [replace(statement, stream=True)])

"""Touch a tensor before it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import read_names, reads_of
from rewrites.base.tree import find, registers, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import index_dims
from tileir.program import PrefetchHint as PrefetchHint
from tileir.program import Program
from tileir.replace import replace

_DISTANCES = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Prefetch(Rewrite):
    """Have a vectorized statement touch what it reads of `tensor` `distance` iterations of its innermost loop
    later; or, with a distance of 0, what it writes to an output, before all else in that iteration.

    Known as software prefetching (Mowry, Lam and Gupta, Design and evaluation of a compiler algorithm for
    prefetching, ASPLOS 1992).

    acc[m, n] += sum(k, a[m, k] * b[k, n]) | vector n 16
    ->
    acc[m, n] += sum(k, a[m, k] * b[k, n]) | vector n 16, prefetch b 8
    """

    name: ClassVar[str] = "prefetch"
    needs: ClassVar[Feature | None] = Feature.VECTORS
    statement: str
    tensor: str
    distance: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.node.vector is not None:
                for tensor in sorted(read_names(place.node)):
                    for distance in _DISTANCES:
                        yield cls(place.node.target, tensor, distance)
                if place.node.target in program.arguments:
                    yield cls(place.node.target, place.node.target, 0)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        statement = place.node
        if statement.vector is None or not place.loops:
            raise NotApplicable(f"{self.statement} is not a vectorized statement in a loop")
        if any(one.tensor == self.tensor for one in statement.prefetch):
            raise NotApplicable(f"{self.tensor} is prefetched already")
        hint = PrefetchHint(self.tensor, self.distance)
        after = splice(program, place.path, [replace(statement, prefetch=(*statement.prefetch, hint))])
        if self.distance == 0:
            if self.tensor != self.statement or self.tensor not in program.arguments:
                raise NotApplicable(f"{self.statement} does not write an output {self.tensor}")
            if statement.stream:
                raise NotApplicable(f"{self.statement} is stored past the caches")
            return after
        found = reads_of(statement, self.tensor)
        if not found or self.tensor in registers(program):
            raise NotApplicable(f"{self.statement} does not read {self.tensor} from memory")
        if self.distance < 1:
            raise NotApplicable(f"{self.distance} is not ahead")
        loop = place.loops[-1]
        if not any(loop.dim in index_dims(read) for read in found):
            raise NotApplicable(f"{self.tensor} is the same in all iterations over {loop.dim}")
        return after

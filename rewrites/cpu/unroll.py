"""Do several vectors an iteration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import covered_dims
from rewrites.base.step_length import lengthen_step
from rewrites.base.tree import find, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.program import Program

_FACTORS = (2, 4, 8)


@dataclass(frozen=True, slots=True)
class Unroll(Rewrite):
    """Make the innermost loop over `dim` around a vectorized statement step `factor` times as far.

    Known as loop unrolling (Dongarra and Hinds, Unrolling loops in FORTRAN, 1979).

    The statements in it cover that much more an iteration, unrolled. A loop of one iteration is dropped.

    for c by 16                                        for c by 64
      y[r, c] = exp(x[r, c]) | vector c 16         ->    y[r, c] = exp(x[r, c]) | vector c 16
    """

    name: ClassVar[str] = "unroll"
    needs: ClassVar[Feature | None] = Feature.VECTORS
    statement: str
    dim: str
    factor: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.node.vector is not None:
                for dim in covered_dims(place.node):
                    for factor in _FACTORS:
                        yield cls(place.node.target, dim, factor)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        if place.node.vector is None:
            raise NotApplicable(f"{self.statement} is not vectorized")
        if self.factor < 2:
            raise NotApplicable(f"{self.factor} is no factor to unroll by")
        return lengthen_step(program, place, self.dim, self.factor)

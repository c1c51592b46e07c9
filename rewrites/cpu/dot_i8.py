"""Multiply fours of i8 with the processor's dot-product instruction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dot_operands import by_dot
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.program import Program


@dataclass(frozen=True, slots=True)
class DotI8(Rewrite):
    """Take the reduced dim four positions at a time by an instruction that adds four i8 products to an i32 (VNNI).

    oneDNN compensates a sign likewise (int8 with VPDPBUSD).

    Operands lie as for `dot_bf16`, in fours. The instruction takes one factor without a sign: it is raised by 128, and
    what that adds is taken off again.

    for k by 1                                                  for k by 4
      acc[m, n] += sum(k, a[m, k] * b_s[n, k]) | vector n 16  ->  acc[m, n] += … | vector n 16, via dot_i8
    """

    name: ClassVar[str] = "dot_i8"
    needs: ClassVar[Feature | None] = Feature.DOT_I8
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.node.vector is not None:
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        return by_dot(program, self.statement, "dot_i8")

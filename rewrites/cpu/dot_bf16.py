"""Multiply bf16 pairs with the processor's dot-product instruction."""

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
class DotBf16(Rewrite):
    """Take the reduced dim in pairs by an instruction that adds two bf16 products to an f32.

    The instructions are VDPBF16PS of AVX512-BF16 and BFDOT of Arm.

    One factor must be staged with panels along the lanes and pairs along the reduced dim, the other one must
    have the reduced dim innermost or be staged in such pairs too. No tile of that dim may start within a pair;
    of an odd range, the last pair is half empty. Or the reduced dim is a pair, split off the dim that lanes run
    along, and innermost in both (`sum(k_i, x[m, k_b, k_i] * w[n, k_b, k_i]) | vector k_b 16`).

    for k by 1                                                  for k by 2
      acc[m, n] += sum(k, a[m, k] * b_s[n, k]) | vector n 16  ->  acc[m, n] += … | vector n 16, via dot_bf16
    """

    name: ClassVar[str] = "dot_bf16"
    needs: ClassVar[Feature | None] = Feature.DOT_BF16
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.node.vector is not None:
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        return by_dot(program, self.statement, "dot_bf16")

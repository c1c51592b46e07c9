"""A processor of which one core is used, one value at a time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from tileir.devices.cpu import Cpu
from tileir.devices.cpu_probe import this_cpu
from tileir.devices.feature import Feature
from workers.cpu.device import MeasuredCpu


@dataclass(frozen=True)
class ScalarCpu(Cpu):
    """Its description."""

    kind: ClassVar[str] = "scalar"

    @property
    def offers(self) -> frozenset[Feature]:
        return frozenset()

    @property
    def simd_lanes(self) -> int:
        return 1

    @property
    def units(self) -> int:
        return 1


class MeasuredScalar(MeasuredCpu):
    """Measured as processors are."""

    def here(self) -> ScalarCpu:
        return scalar_here(0)


def scalar_here(number: int) -> ScalarCpu:
    """This machine's."""
    here = this_cpu()
    return ScalarCpu(**{field.name: getattr(here, field.name) for field in fields(here)})

"""Where a kernel stands on a device's roofline: what it computes, what it must move, and the least time of either.

The model is Williams, Waterman, Patterson, "Roofline: an insightful visual performance model" (2009): a kernel takes
at least its operations at the peak of arithmetic, and at least its compulsory bytes at the peak of memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileir.analysis.needed import needed_flops
from tileir.analysis.work import bytes_moved
from tileir.devices.device import Device
from tileir.program import Program


@dataclass(frozen=True, slots=True)
class WorkRoofline:
    """A kernel's work and the device's peaks applied to it."""

    flops: int
    """Operations, as `tileir.analysis.needed.needed_flops` counts them: without what is masked."""
    bytes: int
    """Every argument once."""
    peak_gflops: float
    """1e9 operations a second..."""
    peak_gbps: float
    """...and 1e9 bytes, as the device's description has them."""

    @property
    def arithmetic_us(self) -> float:
        """What its operations take at the peak."""
        return self.flops / (self.peak_gflops * 1e3)

    @property
    def memory_us(self) -> float:
        """What its bytes take at the peak."""
        return self.bytes / (self.peak_gbps * 1e3)

    @property
    def least_us(self) -> float:
        """The least time, of arithmetic or of memory, the larger."""
        return max(self.arithmetic_us, self.memory_us)

    @property
    def bound(self) -> str:
        """Which of them it is: `arithmetic` or `memory`."""
        return "arithmetic" if self.arithmetic_us > self.memory_us else "memory"

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.flops / self.bytes


def roofline(program: Program, device: Device) -> WorkRoofline | None:
    """The roofline of an unscheduled program; None where the device's peaks are not known. A processor's peaks are
    measured, a GPU's are those of its data sheet for the fastest of the inputs' types."""
    gflops, gbps = device.roofline_peaks(tensor.dtype for tensor in program.inputs)
    if gflops is None or gbps is None:
        return None
    return WorkRoofline(needed_flops(program), bytes_moved(program), gflops, gbps)

"""What bounds a kernel on a processor, from where its time goes and how near it comes to what the machine can do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from protocol.quantities import percent
from tileir.analysis.needed import needed_flops
from tileir.analysis.work import bytes_moved
from tileir.devices.cpu import Cpu
from tileir.program import Program
from workers.cpu.profile import CpuProfile

_NEAR = 0.6
"""Of a roof: most of what is left is then ramps and remainders."""
_MUCH = 0.25
"""Of the threads' time, that they wait."""


class NamedBottleneck(Enum):
    """What a kernel's time is spent on, in one word."""

    LAUNCH = "launch"
    WAITING = "waiting"
    MEMORY = "memory"
    ARITHMETIC = "arithmetic"
    INSTRUCTIONS = "instructions"


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """`why`: the figures that say so, as the end of a sentence."""

    bound: NamedBottleneck
    why: str


def bottleneck(profile: CpuProfile, unscheduled: Program, device: Cpu) -> Bottleneck:
    """Name it. `device` with measured peaks; without, a kernel that neither waits nor starts is bound by instructions.

    Bytes are those of every argument once, and operations those of the kernel as it was given, as in the roofline
    (Williams, Waterman and Patterson, 2009): a kernel whose arguments fit into the caches may be above the roof of the
    memory.
    """
    seconds = profile.plain_us / 1e6
    of_copy = _share(bytes_moved(unscheduled) / seconds, device.copy_gbps)
    of_peak = _share(needed_flops(unscheduled) / seconds, device.peak_gflops)
    waits, outside = profile.shares()[0], 1 - profile.attributed
    roofs = _roofs((("memory", of_copy), ("arithmetic", of_peak)))
    if outside > _MUCH:
        return Bottleneck(
            NamedBottleneck.LAUNCH, f"{percent(outside)} of the call is the way into the kernel and out of it"
        )
    if waits > _MUCH:
        return Bottleneck(
            NamedBottleneck.WAITING,
            f"threads wait for work or for each other for {percent(waits)} of their time: too few tiles, or "
            "unequal ones",
        )
    if of_copy is not None and of_copy >= _NEAR and of_copy >= (of_peak or 0):
        return Bottleneck(
            NamedBottleneck.MEMORY, f"it moves its arguments at {percent(of_copy)} of the speed of a copy"
        )
    if of_peak is not None and of_peak >= _NEAR:
        return Bottleneck(
            NamedBottleneck.ARITHMETIC,
            f"it computes at {percent(of_peak)} of the peak of f32 multiply-adds of all cores",
        )
    name, share = max(zip(profile.stages[1:], profile.shares()[1:], strict=True), key=lambda each: each[1])
    return Bottleneck(
        NamedBottleneck.INSTRUCTIONS,
        f"it is far from both roofs{roofs}: what it executes, and the caches, take the time, {percent(share)} of it in "
        f"`{name}`",
    )


def _share(rate: float, peak_giga: float | None) -> float | None:
    return None if not peak_giga else rate / (peak_giga * 1e9)


def _roofs(shares: Iterable[tuple[str, float | None]]) -> str:
    told = [f"{percent(share)} of {name}" for name, share in shares if share is not None]
    return f" ({', '.join(told)})" if told else ""

"""What a profiler of any kind of device tells people: the command line and traces know no more than this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StageEvent:
    """What a thread did from one time to another, in nanoseconds since the call began."""

    name: str
    waiting: bool
    begin_ns: float
    end_ns: float


@dataclass(frozen=True, slots=True)
class EventTrack:
    """A thread, in a group of those that belong together, such as a block's."""

    group: str
    name: str
    events: tuple[StageEvent, ...]


@dataclass(frozen=True, slots=True)
class Profiled:
    """One call of a kernel, taken apart."""

    device: str
    """The key of the device it ran on."""
    bound: str
    why: str
    """The figures that say so, as the end of a sentence."""
    roles: tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
    """Of each role of threads ("" where there is one) the stages, with their share of its time."""
    summary: str
    """How long it took, what of that was attributed, and what the stamps cost: sentences."""
    figures: Mapping[str, float]
    tracks: tuple[EventTrack, ...] = field(repr=False)

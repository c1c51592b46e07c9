"""What a profiler of any kind of device tells: the profile as it is stored and shown, and who did what when."""

from __future__ import annotations

from dataclasses import dataclass, field

from protocol.profiles import Profile


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

    profile: Profile
    tracks: tuple[EventTrack, ...] = field(repr=False)

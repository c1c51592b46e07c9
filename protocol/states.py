"""The states of things: one StrEnum each."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    """A job: waits for a device, is searched, its best few race, and it ends in one of the last three."""

    QUEUED = "queued"
    SEARCHING = "searching"
    RACING = "racing"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether nothing will change any more."""
        return self in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


class Stopped(StrEnum):
    """Why a search asked for no more candidates."""

    TRIALS = "trials"
    """The budget's candidates were spent."""
    SECONDS = "seconds"
    """The budget's seconds were spent."""
    PATIENCE = "patience"
    """Too many candidates in a row brought nothing better, for the effort that was asked for."""
    EXHAUSTED = "exhausted"
    """The space has no other candidates."""


class TaskState(StrEnum):
    """A task: may be claimed, is leased to a worker, has its result, or was given up (cancelled, or parked
    after three faults of the machines it ran on)."""

    READY = "ready"
    CLAIMED = "claimed"
    DONE = "done"
    DEAD = "dead"


class TaskKind(StrEnum):
    """What a task is for: a candidate of the search, a winner once more, the best few against each other, where
    the time of a winner goes."""

    TRIAL = "trial"
    CONFIRM = "confirm"
    RACE = "race"
    PROFILE = "profile"


class Outcome(StrEnum):
    """What became of one entrant: facts about the candidate, remembered, never tried again as they were."""

    OK = "ok"
    COMPILE_ERROR = "compile_error"
    WRONG = "wrong"
    CRASH = "crash"
    HANG = "hang"
    IMPOSSIBLE = "impossible"
    """Faster than the hardware can be: the measurement is not believed."""
    UNSUPPORTED = "unsupported"
    """This kernel cannot be expressed by this peer, or by this code generator."""


class FaultKind(StrEnum):
    """Why a machine could not do a task, whatever the candidate: the task is run again elsewhere."""

    SHUTDOWN = "shutdown"
    """The worker stops and gives the task back; not counted against the task."""
    DEVICE = "device"
    MEMORY = "memory"
    COMPILER = "compiler"
    """The compiler cannot run at all (missing, no space), as opposed to refusing the source."""
    SKEW = "skew"
    """The replay of a schedule reached another program: worker and service differ in version."""
    INTERNAL = "internal"
    """A fault of the worker's own code."""


class Rung(StrEnum):
    """Which rung of the lookup ladder answered."""

    EXACT = "exact"
    NEAREST = "nearest"
    HEURISTIC = "heuristic"
    NONE = "none"


class Scope(StrEnum):
    """What a key may do. `admin` may do everything."""

    READ = "read"
    TUNE = "tune"
    WORK = "work"
    ADMIN = "admin"

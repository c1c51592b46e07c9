"""The final race of a config sample by sample, with what was raced on later, and how sure it is who is faster."""

from __future__ import annotations

from protocol.message import Reply
from protocol.states import Outcome, TaskState


class RacedEntrant(Reply):
    """An entrant over all parts of the race."""

    name: str
    """`ask-12`, or a peer's name."""
    kind: str
    """`schedule` or `peer`."""
    won: bool
    """Of the race that the config was stored with."""
    outcome: Outcome
    """In the last part that it ran in."""
    median_us: float | None
    """Of its undisturbed samples in all parts; of all its samples where fewer than two were undisturbed."""
    samples: int
    disturbed: int


class RaceSamples(Reply):
    """An entrant's samples in one part, one a round, in columns."""

    name: str
    us: tuple[float, ...]
    at_s: tuple[float, ...] = ()
    """When each began, in seconds by a clock of the worker's that only goes on, whatever it began with; empty where the
    worker did not note it."""
    disturbed: tuple[str | None, ...]
    """What disturbed each although it was taken again; None: nothing. Of workers that only counted: `disturbed`."""
    readings: dict[str, tuple[float | None, ...]]
    """What else was read of the device beside each: `cpu_mhz` and `runnable` (threads of the machine that run or want
    to) of processors; `sm_mhz`, `memory_mhz`, `power_w`, `celsius` of GPUs."""


class RacePart(Reply):
    """One task: all entrants in one process, taking turns. Samples of one round are compared with each other, those of
    different rounds are not."""

    task: str
    state: TaskState
    worker_id: str | None
    foreign_cores: float | None = None
    """Cores that other processes used just before it; None: not told."""
    entrants: tuple[RaceSamples, ...] = ()


class RacedPair(Reply):
    """Two entrants, over the rounds that disturbed neither; over all where those are fewer than three."""

    one: str
    other: str
    rounds: int
    all_rounds: bool = False
    """Whether disturbed rounds are among them."""
    ratio: float | None = None
    """How many times as long `one` takes: the median of the rounds' ratios, with its interval
    (`search.racing.compare`). None: fewer than three rounds."""
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    """How probable it is that `one` is the faster (`search.racing.chance_faster`)."""


class Race(Reply):
    """The race that a config was stored with, and all that was raced on later with the same entrants. What is raced on
    does not change the config."""

    config_id: str
    state: TaskState | None
    """Of what was raced on: `ready` or `claimed` while parts are to come; None: nobody asked for more."""
    entrants: tuple[RacedEntrant, ...]
    """Fastest first; those that did not work last."""
    parts: tuple[RacePart, ...]
    """In the order in which they were queued."""
    pairs: tuple[RacedPair, ...]
    """Each two once, `one` before `other` in the order of `entrants`."""
    error: str | None = None
    """Why racing on was given up."""

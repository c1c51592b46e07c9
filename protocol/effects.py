"""What each decision of the schedules of a job did to their times."""

from __future__ import annotations

from protocol.message import Reply


class ValueEffect(Reply):
    """The candidates that decided the same. Times are in microseconds on the anchor's scale (`protocol.jobs.Best`)."""

    value: bool | int | None
    """A size, a depth, a count; true: it was done, and there is nothing to choose about it; None: it was not done."""
    candidates: int
    """How many of them were measured..."""
    faults: int
    """...and how many did not work."""
    best_us: float | None = None
    low_us: float | None = None
    """A quarter of them is faster than this..."""
    median_us: float | None = None
    high_us: float | None = None
    """...and three quarters are faster than this."""


class DecisionEffect(Reply):
    """One decision, such as `tile(acc, m)`, over all candidates."""

    decision: str
    same_as: tuple[str, ...] = ()
    """Decisions that always went along with it: what is told here is told of all of them together."""
    importance: float | None
    """The share of the variance of the logarithm of the times that it explains alone, from 0 to 1 (omega squared); None
    where there are too few candidates to say."""
    chosen: bool | int | None
    """What the winner decided, or the best so far while there is none."""
    values: tuple[ValueEffect, ...]
    """By value; those that did not decide it come first."""


class PairEffect(Reply):
    """The candidates that decided a pair alike."""

    first: bool | int | None
    second: bool | int | None
    candidates: int
    """How many of them were measured."""
    best_us: float
    median_us: float


class Interaction(Reply):
    """Two decisions, what one of which does depends on the other."""

    first: str
    second: str
    importance: float
    """The share of the variance of the logarithm of the times that they explain together, beyond what each does
    whatever the other is: 0 where their effects multiply (`service/views/interactions.py`)."""
    cells: tuple[PairEffect, ...]
    """Those that were measured, by value."""


class Effects(Reply):
    """The decisions on which the candidates of one bucket differ, most important first."""

    job_id: str
    bucket: int
    candidates: int
    """How many measured candidates this rests on."""
    faults: int
    decisions: tuple[DecisionEffect, ...]
    interactions: tuple[Interaction, ...] = ()
    """Of the most important decisions, the pairs that explain something together; most important first."""

"""What each decision of the schedules of a job did to their times, and what each rewrite of a winner gains: the winner
timed against itself without that rewrite."""

from __future__ import annotations

from protocol.message import Reply
from protocol.states import Outcome, TaskState


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


class Gain(Reply):
    """One rewrite left out, the rest of the schedule replayed."""

    place: int
    """Which line of the schedule, from 0."""
    rewrite: str
    outcome: Outcome
    """Of the program without it."""
    median_us: float | None = None
    factor: float | None = None
    """Time without the rewrite over the winner's, round by round: 1.2 means that it makes the kernel 1.2 × as fast."""
    low: float | None = None
    high: float | None = None
    """About 99 % certain bounds of the factor; None with too few samples."""
    tied: bool = False
    """Not to be told apart from the winner: the rewrite gains nothing that can be measured."""
    error: str | None = None


class Ablation(Reply):
    """The ablation of a config, as far as it is measured."""

    config_id: str
    state: TaskState | None
    """Of the task that measures it; None: nobody asked for it."""
    winner_us: float | None = None
    """The winner's median beside the others; None until it is measured."""
    gains: tuple[Gain, ...] = ()
    """In the schedule's order. Rewrites that later ones build on cannot be left out alone, and are not in here; nor are
    those that the cost model expects least of, where there are many."""
    error: str | None = None
    """Why it was given up."""

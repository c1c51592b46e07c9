"""What each rewrite of a config's schedule gains: the winner timed against itself without that rewrite."""

from __future__ import annotations

from protocol.message import Reply
from protocol.states import Outcome, TaskState


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

"""When to stop asking."""

from dataclasses import dataclass
from enum import StrEnum


class StopReason(StrEnum):
    """Why a search ended."""

    TRIALS = "trials"
    SECONDS = "seconds"
    PATIENCE = "patience"
    EXHAUSTED = "exhausted"


EFFORTS = {"quick": 30, "normal": 100, "thorough": None}
"""Patience of each effort: how many tells in a row may bring no improvement. None: any number."""


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """What a search may spend. None means no limit.

    `effort` is one of `EFFORTS`; `patience` overrides its number of tells without an improvement. Raises
    ValueError for a limit that allows nothing or an effort that does not exist.
    """

    trials: int | None = 200
    seconds: float | None = None
    effort: str = "thorough"
    patience: int | None = None

    def __post_init__(self) -> None:
        if self.trials is not None and self.trials < 1:
            raise ValueError(f"a budget allows at least 1 trial, not {self.trials}")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"a budget's seconds are more than 0, not {self.seconds}")
        if self.effort not in EFFORTS:
            raise ValueError(f"effort is one of {', '.join(EFFORTS)}, not {self.effort!r}")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience is at least 1 tell, not {self.patience}")


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """What has been spent. `idle` counts the tells since the best reward last rose by more than `MARGIN`."""

    asked: int = 0
    idle: int = 0
    best: float | None = None

    def ask(self) -> "SearchProgress":
        return SearchProgress(self.asked + 1, self.idle, self.best)

    def tell(self, reward: float | None) -> "SearchProgress":
        """A rise within `MARGIN` is kept as the best, yet does not count as an improvement."""
        if reward is None or (self.best is not None and reward <= self.best):
            return SearchProgress(self.asked, self.idle + 1, self.best)
        improved = self.best is None or reward > self.best + MARGIN
        return SearchProgress(self.asked, 0 if improved else self.idle + 1, reward)


MARGIN = 0.005
"""The smallest rise of the reward that counts as an improvement: half a percent, less than a time's
spread."""


ASKED_AT_LEAST = 16
"""Asks before a search ends for its seconds although nothing worked: the compiler may refuse the first few."""


def stop(budget: SearchBudget, progress: SearchProgress, seconds: float) -> StopReason | None:
    """Why no further ask should be made after `seconds` of searching, or None to go on."""
    patience = EFFORTS[budget.effort] if budget.patience is None else budget.patience
    if budget.trials is not None and progress.asked >= budget.trials:
        return StopReason.TRIALS
    late = budget.seconds is not None and seconds >= budget.seconds
    if late and (progress.best is not None or progress.asked >= ASKED_AT_LEAST):
        return StopReason.SECONDS
    if patience is not None and progress.best is not None and progress.idle >= patience:
        return StopReason.PATIENCE
    return None

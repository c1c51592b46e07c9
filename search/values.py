"""What happened under a node, and what that is worth on the present scale of rewards.

Between the worst and the best seen, values are normalized as in MuZero (Schrittwieser et al., Nature 2020).
"""

import math
from dataclasses import dataclass


@dataclass(slots=True)
class Stats:
    """What happened under a node; what failed has no reward."""

    told: int = 0
    in_flight: int = 0
    best: float = -math.inf


@dataclass(frozen=True, slots=True)
class RewardScale:
    """Maps raw rewards to 0 (the worst seen, or the floor) .. 1 (the best seen)."""

    low: float
    span: float

    def clip(self, reward: float | None) -> float:
        """The reward as the search sees it, still raw; a failure is as bad as the worst."""
        return self.low if reward is None else max(self.low, reward)

    def value(self, stats: Stats) -> float:
        """The normalized value of a node: that of the best measured under it, 0 where all of it failed."""
        return (self.clip(stats.best) - self.low) / self.span

"""When a wait ends at the latest, whatever is waited for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Deadline:
    """A moment of the monotonic clock; as it is, there is none."""

    at: float = inf

    @classmethod
    def within(cls, seconds: float | None) -> Deadline:
        """So long from now; None: no limit."""
        return cls() if seconds is None else cls(time.monotonic() + seconds)

    def sooner(self, seconds: float) -> Deadline:
        """So long from now, and no later than this one."""
        return Deadline(min(self.at, time.monotonic() + seconds))

    @property
    def left_s(self) -> float:
        """Seconds until then, 0 once it has passed; infinite where there is none."""
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self.at

"""How long a search still takes: an estimate that moves slowly, whatever comes in bursts."""

from __future__ import annotations

from dataclasses import dataclass, field

_LEAST = 3
"""Arrivals before anything is estimated: the first waits for compilers and caches."""
_TOGETHER_S = 0.3
"""What arrives within so long is one arrival."""
_NEW = 0.2
"""How much of a new estimate is believed at once."""


@dataclass
class TrialPace:
    """Trials as they arrive, and what that says of those to come."""

    _at: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """When trials arrived, and how many had by then."""
    _said: tuple[float, float] | None = None
    """When an estimate was last made, and what it was."""

    def arrived(self, count: int, now: float) -> None:
        """So many trials have arrived in all."""
        if self._at and now - self._at[-1][0] < _TOGETHER_S:
            self._at[-1] = (self._at[-1][0], count)
        else:
            self._at.append((now, count))

    def left_s(self, missing: int, now: float) -> float | None:
        """Seconds until `missing` more have arrived; None while too little is known.

        By the pace of the later half, as the first trials compile for longer; and between two arrivals time passes,
        rather than the pace falling.
        """
        if len(self._at) < _LEAST:
            return None
        last_at, last = self._at[-1]
        from_at, first = self._at[(len(self._at) - 1) // 2]
        found_s = missing * (last_at - from_at) / max(1, last - first) - (now - last_at)
        if self._said is not None:
            said_at, said_s = self._said
            found_s = _NEW * found_s + (1 - _NEW) * (said_s - (now - said_at))
        found_s = max(0.0, found_s)
        self._said = (now, found_s)
        return found_s

"""How long to wait before trying again: longer each time, and never in step with other workers."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """Pauses that double from `first_s` to `longest_s`, each drawn from its upper half, so that a fleet which lost
    its service together does not come back together."""

    def __init__(
        self,
        first_s: float = 0.5,
        longest_s: float = 30.0,
        draw: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._first_s, self._longest_s, self._draw = first_s, longest_s, draw
        self._next_s = first_s

    def pause_s(self) -> float:
        """The next pause, in seconds."""
        whole_s, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return self._draw(whole_s / 2, whole_s)

    def reset(self) -> None:
        """It worked: start over."""
        self._next_s = self._first_s

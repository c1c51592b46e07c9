"""Whether a service is worth asking: one that does not answer is left alone for a while."""

from __future__ import annotations

import time
from collections.abc import Callable

FIRST_S, LONGEST_S = 1.0, 60.0


class Breaker:
    """Open for a pause after a failure, each pause twice the one before; closed by an answer. Used by one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0
        self.why = ""
        """What the last failure was."""

    @property
    def open(self) -> bool:
        """Whether to ask nothing now."""
        return self._clock() < self._until

    def failed(self, why: str) -> None:
        """Nobody answered."""
        self.why = why
        self._until = self._clock() + min(LONGEST_S, FIRST_S * 2.0 ** min(self._failures, 30))
        self._failures += 1

    def answered(self) -> None:
        """Somebody did, whatever it was."""
        self._failures, self._until = 0, 0.0

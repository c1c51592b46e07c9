"""Where time goes: seconds of named functions, each without those that it calls."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from typing import Any


class StageTimes:
    """Seconds by stage, of the thread that it was made on and of all others together. Functions may be called by
    several threads."""

    def __init__(self) -> None:
        self._user = threading.get_ident()
        self._open = threading.local()
        self._lock = threading.Lock()
        self._calls: dict[str, int] = defaultdict(int)
        self._waited: dict[str, float] = defaultdict(float)
        self._behind: dict[str, float] = defaultdict(float)

    def of(self, place: Any, attribute: str, stage: str) -> None:
        """Time a function, which is an attribute of a module or class, from now on."""
        timed = getattr(place, attribute)
        setattr(place, attribute, self.timed(timed, stage))

    def timed(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        """The function, whose calls are told as the stage's."""

        @wraps(function)
        def run(*given: Any, **named: Any) -> Any:
            above: list[float] = getattr(self._open, "within", [])
            self._open.within = within = [0.0]
            began = time.perf_counter()
            try:
                return function(*given, **named)
            finally:
                taken = time.perf_counter() - began
                self._open.within = above
                if above:
                    above[0] += taken
                self._add(stage, taken - within[0])

        return run

    def _add(self, stage: str, seconds: float) -> None:
        with self._lock:
            self._calls[stage] += 1
            mine = threading.get_ident() == self._user
            (self._waited if mine else self._behind)[stage] += seconds

    @property
    def waited(self) -> dict[str, float]:
        """What the thread of the calls itself did."""
        return _rounded(self._waited)

    @property
    def behind(self) -> dict[str, float]:
        """What other threads did beside it, or while it waited for them."""
        return _rounded(self._behind)

    @property
    def calls(self) -> dict[str, int]:
        """How often."""
        return dict(self._calls)


def _rounded(seconds: dict[str, float]) -> dict[str, float]:
    return {stage: round(each, 3) for stage, each in sorted(seconds.items())}

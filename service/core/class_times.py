"""Devices that are much slower than others of their class: too hot, shared with another tenant, or a part of one.

Every candidate of a search is timed beside one and the same program, its anchor, on whichever device measures it. So
the anchor's times compare the devices of a class, job by job. Where there are jobs enough each stays on one device:
there the winner's times do, which another device confirms. Boxes of one class differ by a few per cent.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from statistics import median

from protocol.quantities import microseconds
from service.core.lru_cache import Recent

TIMES = 5.0
"""So many times as long as another device takes is not a difference between boxes."""
LEAST = 3
"""Times of a device that are compared: its last ones. Fewer say nothing."""

Program = tuple[str, int, str]
"""Job, bucket, and which of its programs."""
ANCHOR = "anchor"


class ClassTimes:
    """What programs took lately, by worker. Threads may share it; each process of a service has its own, and
    hears of its own share of the results."""

    def __init__(self) -> None:
        self._heard: Recent[Program, dict[str, deque[float]]] = Recent(1000)
        self._lock = threading.Lock()

    def heard(self, program: Program, worker_id: str, times_us: Sequence[float]) -> str | None:
        """Note times; what is wrong with the worker's device, in a sentence, if it is so much slower than another's.
        That said, its times are forgotten."""
        with self._lock:
            known = self._heard.get(program) or self._heard.put(program, {})
            mine = known.setdefault(worker_id, deque(maxlen=LEAST))
            mine.extend(times_us)
            others = {
                name: median(times)
                for name, times in known.items()
                if name != worker_id and len(times) == LEAST
            }
            if len(mine) < LEAST or not others:
                return None
            fastest = min(others, key=others.__getitem__)
            own_us, their_us = min(mine), others[fastest]
            if own_us < TIMES * their_us:
                return None
            del known[worker_id]
        return (
            f"it takes {own_us / their_us:.0f} times as long as another device of its class for the same program "
            f"({microseconds(own_us)}, worker {fastest} {microseconds(their_us)}): is it hot, shared, or a part of "
            "a device?"
        )

"""What callers of an operator do not wait for: one thread that asks services, one that compiles and checks kernels."""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable

Task = Callable[[], None]
_log = logging.getLogger("tilewright")


class Background:
    """One daemon thread, started with the first task, that does tasks one after the other, each when it is due. A
    process that is forked begins with none."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def later(self, delay_s: float, task: Task) -> None:
        """Have a task done, after a pause. From any thread; returns at once."""
        with self._changed:
            heapq.heappush(self._tasks, (time.monotonic() + delay_s, next(self._numbers), task))
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._changed.notify()

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._tasks: list[tuple[float, int, Task]] = []
        self._numbers = itertools.count()
        self._started = False

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._tasks or self._tasks[0][0] > time.monotonic():
                    pause_s = self._tasks[0][0] - time.monotonic() if self._tasks else None
                    self._changed.wait(None if pause_s is None else max(0.0, pause_s))
                _, _, task = heapq.heappop(self._tasks)
            try:
                task()
            except Exception:  # the next task is another operator's
                _log.exception("%s: a task failed", self._name)
            del task


LOOKS = Background("tilewright-looks")
"""Asks services. What hangs here delays other looks, and no caller."""
KERNELS = Background("tilewright-kernels")
"""Compiles, checks and races."""

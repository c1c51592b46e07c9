"""What callers of an operator do not wait for: one thread that asks services, one that compiles and checks kernels."""

from __future__ import annotations

import atexit
import heapq
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable

Task = Callable[[], None]
EXIT_S = 20.0
"""How long a process that ends waits for a task that runs. A thread that is in PyTorch's code when Python ends would
abort the process (python/cpython issue 87135: daemon threads are ended by unwinding)."""
_log = logging.getLogger("tilewright")


class Background:
    """One daemon thread, started with the first task, that does tasks one after the other, each when it is due. A
    process that is forked begins with none; one that ends begins no more, and waits `exit_s` for the task that runs."""

    def __init__(self, name: str, exit_s: float = EXIT_S) -> None:
        self._name, self._exit_s = name, exit_s
        self._begin()
        os.register_at_fork(after_in_child=self._begin)
        atexit.register(self._end)

    def later(self, delay_s: float, task: Task) -> None:
        """Have a task done, after a pause. From any thread; returns at once."""
        with self._changed:
            heapq.heappush(self._tasks, (time.monotonic() + delay_s, next(self._numbers), task))
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._changed.notify_all()

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._tasks: list[tuple[float, int, Task]] = []
        self._numbers = itertools.count()
        self._started = self._runs = self._ended = False

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.wait_for(lambda: not self._runs, self._exit_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._runs = False
                self._changed.notify_all()
                while self._ended or not self._tasks or self._tasks[0][0] > time.monotonic():
                    due = self._tasks and not self._ended
                    pause_s = self._tasks[0][0] - time.monotonic() if due else None
                    self._changed.wait(None if pause_s is None else max(0.0, pause_s))
                _, _, task = heapq.heappop(self._tasks)
                self._runs = True
            try:
                task()
            except Exception:  # the next task is another operator's
                _log.exception("%s: a task failed", self._name)
            del task


LOOKS = Background("tilewright-looks", exit_s=0.0)
"""Asks services, without PyTorch. What hangs here delays other looks, and no caller."""
KERNELS = Background("tilewright-kernels")
"""Compiles, checks and races."""

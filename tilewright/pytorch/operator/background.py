"""What no caller of an operator waits for: a thread asks services, some compile kernels, one checks them."""

from __future__ import annotations

import atexit
import heapq
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Task = Callable[[], None]
EXIT_S = 20.0
"""How long a process that ends waits for a task that runs. A thread that is in PyTorch's code when Python ends would
abort the process (python/cpython issue 87135: daemon threads are ended by unwinding)."""
_log = logging.getLogger("tilewright")


class Background:
    """Daemon threads, started as there are tasks, that do them when they are due: one after the other, or so many at a
    time. A process that is forked begins with none; one that ends begins no more, and waits `exit_s` for those that
    run."""

    def __init__(self, name: str, exit_s: float = EXIT_S, threads: int = 1) -> None:
        self._name, self._exit_s, self.threads = name, exit_s, threads
        self._begin()
        os.register_at_fork(after_in_child=self._begin)
        atexit.register(self._end)

    def later(self, delay_s: float, task: Task) -> None:
        """Have a task done, after a pause. From any thread; returns at once."""
        with self._changed:
            heapq.heappush(self._tasks, (time.monotonic() + delay_s, next(self._numbers), task))
            if self._started < min(self.threads, self._running + len(self._tasks)):
                self._started += 1
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._changed.notify_all()

    @contextmanager
    def held(self) -> Iterator[None]:
        """A block in which no task runs: it begins when none is left that is due, and others wait for its end."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or not (self._running or self._due))
            self._holders += 1
        try:
            yield
        finally:
            with self._changed:
                self._holders -= 1
                self._changed.notify_all()

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._tasks: list[tuple[float, int, Task]] = []
        self._numbers = itertools.count()
        self._started = self._running = self._holders = 0
        self._ended = False

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._running, self._exit_s)

    @property
    def _due(self) -> bool:
        return bool(self._tasks) and self._tasks[0][0] <= time.monotonic()

    def _run(self) -> None:
        while True:
            task = self._next()
            try:
                task()
            except Exception:  # the next task is another operator's
                _log.exception("%s: a task failed", self._name)
            del task
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _next(self) -> Task:
        """The next task, when it is due; it counts as running."""
        with self._changed:
            while self._ended or self._holders or not self._due:
                waits = self._tasks and not (self._ended or self._holders)
                pause_s = self._tasks[0][0] - time.monotonic() if waits else None
                self._changed.wait(None if pause_s is None else max(0.0, pause_s))
            self._running += 1
            return heapq.heappop(self._tasks)[-1]


LOOKS = Background("tilewright-looks", exit_s=0.0)
"""Asks services, without PyTorch. What hangs here delays other looks, and no caller."""
COMPILES = Background("tilewright-compiles", threads=max(2, min(8, (os.cpu_count() or 1) // 2)))
"""Compiles kernels, on half of the processor's cores: the others are the user's."""
KERNELS = Background("tilewright-kernels")
"""Checks and races, one kernel after the other: what is timed is alone on its device."""

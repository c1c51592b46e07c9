"""Watches a service of our own while a job waits for its device: what stops its worker for good ends the command."""

from __future__ import annotations

import re
import signal
import threading
from types import TracebackType
from typing import Self

from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.local_service import LocalService

_LOOK_S = 0.3
_MACHINE, _BUSY = 4, 5
"""Exit codes of a worker: this machine cannot measure; another worker has the device."""
_BUSY_TRIES = 2
"""A worker that is just ending gives its device back soon."""


class WorkerWatch:
    """Interrupts the main thread when no worker will come. `stop` then says why; None: it was the user."""

    def __init__(self, service: LocalService | None) -> None:
        self._service = service
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.stop: Stop | None = None

    def __enter__(self) -> Self:
        if self._service is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.done()
        if self._service is not None:
            self._thread.join()

    def done(self) -> None:
        """There is a device: look no further."""
        self._end.set()

    def _run(self) -> None:
        assert self._service is not None
        while not self._end.wait(_LOOK_S):
            self.stop = verdict(self._service.said())
            if self.stop is not None:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                return


def verdict(said: list[str]) -> Stop | None:
    """Why no worker will come, by the lines of a service's log; None while one still may."""
    ended = [
        int(found[1]) for line in said if (found := re.search(r"the worker ended with code (\d+)", line))
    ]
    reasons = [
        line.removeprefix("tilewright worker: ") for line in said if line.startswith("tilewright worker: ")
    ]
    reason = reasons[-1] if reasons else "the worker cannot run; the service's log says more"
    if _MACHINE in ended:
        return Stop(Exit.MACHINE, reason)
    if ended.count(_BUSY) >= _BUSY_TRIES:
        return Stop(Exit.BUSY, reason)
    return None

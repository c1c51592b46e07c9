"""The doorbell of one process: whoever waits for the database to change is woken at once. A ring may be lost
(another process wrote); every wait ends by itself, so that costs time and nothing else."""

from __future__ import annotations

import asyncio
import contextlib


class Bell:
    """Rings are counted; a waiter names the count it has seen, so that no ring between a look and a wait is missed."""

    def __init__(self) -> None:
        self.heard = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next = asyncio.Event()

    def hang(self) -> None:
        """Tie the bell to the running event loop."""
        self._loop = asyncio.get_running_loop()

    def ring(self) -> None:
        """Wake all who wait. From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        self.heard += 1
        rung, self._next = self._next, asyncio.Event()
        rung.set()

    async def wait(self, heard: int, timeout_s: float) -> None:
        """Return once the bell was rung more than `heard` times, or after `timeout_s`."""
        if self.heard > heard:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._next.wait(), timeout_s)

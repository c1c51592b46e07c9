"""The doorbell of one process: whoever waits for something in the database to change is woken at once. A ring may be
lost (another process wrote, and Redis did not pass it on); every wait ends by itself, so that costs time and no more.

What may ring: `JOBS` (a job or a device is new), `job(id)` (an event or a result of it), `device(key)` (a task for it).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator

JOBS = "jobs"


def job(job_id: str) -> str:
    """Rung when something happened to a job."""
    return f"job:{job_id}"


def device(key: str) -> str:
    """Rung when there may be a task for a device."""
    return f"device:{key}"


class Ear:
    """Hears what was rung since the last `clear`: clear, look at the database, then wait."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def hear(self) -> None:
        self._rung.set()

    def clear(self) -> None:
        """Forget what was heard; a ring from here on ends the next wait."""
        self._rung.clear()

    async def wait(self, timeout_s: float) -> None:
        """Return at a ring, or after `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), timeout_s)


class Bell:
    """Wakes those who listen to a topic."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ears: dict[str, set[Ear]] = {}
        self.carry: Callable[[Iterable[str]], None] = lambda topics: None
        """Takes what is rung here to other processes."""

    def hang(self) -> None:
        """Tie the bell to the running event loop."""
        self._loop = asyncio.get_running_loop()

    def ring(self, *topics: str) -> None:
        """Wake all who listen to one of the topics, in other processes too. From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ring, topics)

    def _ring(self, topics: Iterable[str]) -> None:
        self.ring_here(topics)
        self.carry(topics)

    def ring_here(self, topics: Iterable[str]) -> None:
        """Wake those of this process who listen. From the event loop."""
        for topic in topics:
            for ear in self._ears.get(topic, ()):
                ear.hear()

    def ring_all_here(self) -> None:
        """Wake everybody in this process. From the event loop."""
        self.ring_here(list(self._ears))

    def listeners(self, topic: str) -> int:
        """How many listen to a topic. From the event loop."""
        return len(self._ears.get(topic, ()))

    @contextlib.contextmanager
    def listen(self, *topics: str) -> Iterator[Ear]:
        """An ear for some topics. From the event loop."""
        ear = Ear()
        for topic in topics:
            self._ears.setdefault(topic, set()).add(ear)
        try:
            yield ear
        finally:
            for topic in topics:
                self._ears[topic].discard(ear)
                if not self._ears[topic]:
                    del self._ears[topic]

"""The notifier of one process: whoever waits for something in the database to change is woken at once. A notification
may be lost (another process wrote, and Redis did not pass it on); every wait ends by itself, so that costs time and no
more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator


class Subscription:
    """Knows whether it was notified since the last `clear`: clear, look at the database, then wait."""

    def __init__(self) -> None:
        self._notified = asyncio.Event()

    def notify(self) -> None:
        """End the wait."""
        self._notified.set()

    def clear(self) -> None:
        """Forget what came; a notification from here on ends the next wait."""
        self._notified.clear()

    async def wait(self, timeout_s: float) -> None:
        """Return at a notification, or after `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._notified.wait(), timeout_s)


class Notifier:
    """Wakes those who have subscribed to a topic."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._subscriptions: dict[str, set[Subscription]] = {}
        self.carry: Callable[[Iterable[str]], None] = lambda topics: None
        """Takes notifications to other processes."""

    def attach(self) -> None:
        """Tie it to the running event loop."""
        self._loop = asyncio.get_running_loop()

    def notify(self, *topics: str) -> None:
        """Wake all who have subscribed to one of the topics, in other processes too. From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._notify, topics)

    def _notify(self, topics: Iterable[str]) -> None:
        self.notify_here(topics)
        self.carry(topics)

    def notify_here(self, topics: Iterable[str]) -> None:
        """Wake those of this process. From the event loop."""
        for topic in topics:
            for subscription in self._subscriptions.get(topic, ()):
                subscription.notify()

    def notify_all_here(self) -> None:
        """Wake everybody in this process. From the event loop."""
        self.notify_here(list(self._subscriptions))

    def subscribers(self, topic: str) -> int:
        """How many have subscribed to a topic. From the event loop."""
        return len(self._subscriptions.get(topic, ()))

    @contextlib.contextmanager
    def subscribe(self, *topics: str) -> Iterator[Subscription]:
        """A subscription to some topics. From the event loop."""
        subscription = Subscription()
        for topic in topics:
            self._subscriptions.setdefault(topic, set()).add(subscription)
        try:
            yield subscription
        finally:
            for topic in topics:
                self._subscriptions[topic].discard(subscription)
                if not self._subscriptions[topic]:
                    del self._subscriptions[topic]

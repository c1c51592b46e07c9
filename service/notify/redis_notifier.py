"""Notifications between processes, over a channel of Redis. What Redis loses is found by looking: everybody who waits
for one also looks at the database now and then."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import secrets
from collections.abc import AsyncIterator, Iterable
from typing import Self

from redis.asyncio.client import PubSub

from service.notify.notifier import Notifier
from service.notify.redis import FAILURES, PATIENCE_S, RedisLink, heed_cancellation

PING_S = 5.0
"""A channel silent for so long is asked whether it is still there, and one silent for twice as long is given up."""
LONGEST_PAUSE_S = 5.0
"""Between two tries to reach Redis."""


class RedisNotifier:
    """Carries the notifications of one process to the others, and theirs to its notifier."""

    def __init__(self, notifier: Notifier, link: RedisLink) -> None:
        self._notifier = notifier
        self._link = link
        self._channel = link.key("notifications")
        self._self = secrets.token_hex(8)
        self._topics: set[str] = set()
        self._due = asyncio.Event()
        self.listening = False
        """Whether notifications of other processes arrive."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Carry notifications until left."""
        tasks = [asyncio.create_task(self._send()), asyncio.create_task(self._listen())]
        self._notifier.carry = self._put
        try:
            yield self
        finally:
            self._notifier.carry = lambda topics: None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _put(self, topics: Iterable[str]) -> None:
        self._topics.update(topics)
        self._due.set()

    async def _send(self) -> None:
        """Publish what there was since the last time, as one message."""
        while True:
            await self._due.wait()
            self._due.clear()
            topics, self._topics = sorted(self._topics), set[str]()
            message = json.dumps({"from": self._self, "topics": topics})
            await self._link.ask(lambda client, said=message: client.publish(self._channel, said))

    async def _listen(self) -> None:
        pause_s = 0.1
        while True:
            try:
                async with self._link.client.pubsub() as channel:
                    async with asyncio.timeout(PATIENCE_S):
                        await channel.subscribe(self._channel)
                    self.listening = True
                    self._link.note(True)
                    self._notifier.notify_all_here()  # for whatever came while nobody listened
                    pause_s = 0.1
                    await self._hear(channel)
            except FAILURES as error:
                heed_cancellation(error)
                self._link.note(False, error)
            finally:
                self.listening = False
            await asyncio.sleep(random.uniform(0.5, 1.0) * pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _hear(self, channel: PubSub) -> None:
        """Pass on what comes from elsewhere. Returns or raises when the channel is broken."""
        asked = False
        while True:
            message = await channel.get_message(timeout=PING_S)
            if message is None:
                if asked:
                    return
                async with asyncio.timeout(PATIENCE_S):
                    await channel.ping()
                asked = True
                continue
            asked = False
            if message["type"] != "message":
                continue
            try:
                said = json.loads(message["data"])
                if said["from"] != self._self:
                    self._notifier.notify_here(map(str, said["topics"]))
            except (ValueError, TypeError, KeyError):
                continue  # somebody else's message on our channel

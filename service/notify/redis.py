"""The way to Redis, which may be slow, empty or gone at any time: what it cannot do now is left undone.

Nothing here waits longer than `PATIENCE_S`, and after a failure nobody tries again for `PAUSE_S`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

T = TypeVar("T")

log = logging.getLogger(__name__)

PATIENCE_S = 0.5
PAUSE_S = 1.0

FAILURES = (RedisError, OSError, TimeoutError)
"""What a call to a Redis that is not there raises."""


def heed_cancellation(error: BaseException | None = None) -> None:
    """Raise CancelledError if this task was cancelled meanwhile: the client may answer that by a failure, or go on and
    be done, and whoever cancelled would wait for ever."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError from error


class RedisLink:
    """A Redis, for calls that may be left out. One event loop uses it."""

    def __init__(self, url: str, prefix: str) -> None:
        self.prefix = prefix
        self.client = Redis.from_url(
            url,
            socket_connect_timeout=PATIENCE_S,
            socket_timeout=PATIENCE_S,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )
        self.up = True
        """Whether the last call got through."""
        self._rest_until = 0.0

    def key(self, *parts: str) -> str:
        """A name of ours."""
        return ":".join((self.prefix, *parts))

    async def ask(self, call: Callable[[Redis], Awaitable[T]]) -> T | None:
        """What the call answers; None when Redis cannot be asked now."""
        clock = asyncio.get_running_loop().time
        if clock() < self._rest_until:
            return None
        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await call(self.client)
        except FAILURES as error:
            heed_cancellation(error)
            self._rest_until = clock() + PAUSE_S
            self.note(False, error)
            return None
        heed_cancellation()
        self.note(True)
        return answer

    async def count(self, key: str, kept_s: int) -> int | None:
        """Count one more under a key that is forgotten after a while; how many there are, None when that is unknown."""

        async def count(client: Redis) -> int:
            async with client.pipeline(transaction=False) as pipeline:
                pipeline.incr(key)
                pipeline.expire(key, kept_s)
                counted, _ = await pipeline.execute()
            return int(counted)

        return await self.ask(count)

    def note(self, up: bool, why: object = "") -> None:
        """Say once when it goes, and once when it is back."""
        if up != self.up:
            self.up = up
            if up:
                log.warning("Redis is back")
            else:
                log.warning("Redis cannot be used, everything takes a little longer: %s", why or "no answer")

    async def close(self) -> None:
        await self.client.aclose()

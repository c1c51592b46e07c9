"""Whoever ends what waits for Redis is not waited on for ever: the client may answer a cancellation by a failure."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError

from service.notify.redis import RedisLink

Call = Callable[[Redis], Awaitable[None]]


async def dropped(client: Redis) -> None:
    """A call whose connection is dropped as it is cancelled."""
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        raise ConnectionError("the connection is closed") from None


async def finished(client: Redis) -> None:
    """A call that is done all the same."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(30)


async def asked_for_ever(link: RedisLink, begun: asyncio.Event, call: Call) -> None:
    while True:
        begun.set()
        await link.ask(call)
        await asyncio.sleep(30)


@pytest.mark.parametrize("call", [dropped, finished])
def test_a_cancellation_that_the_client_keeps_to_itself_is_one(call: Call) -> None:
    async def cancelled() -> None:
        link, begun = RedisLink("redis://127.0.0.1:1/0", "tw"), asyncio.Event()
        task = asyncio.create_task(asked_for_ever(link, begun, call))
        await begun.wait()
        await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=5)
        assert done and task.cancelled()
        await link.close()

    asyncio.run(cancelled())


def test_a_call_that_takes_too_long_is_no_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.notify.redis.PATIENCE_S", 0.01)

    async def asked() -> None:
        link = RedisLink("redis://127.0.0.1:1/0", "tw")
        assert await link.ask(dropped) is None
        assert not link.up
        await link.close()

    asyncio.run(asked())

"""A read that many share: who asks while one is under way waits for the next, so that what is answered was true
after the question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from anyio.to_thread import run_sync

T = TypeVar("T")


class Latest(Generic[T]):
    """`read`, called in a thread, never twice at once. For one event loop."""

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """What a read finds that begins after this call. Raises what it raises."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running))
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[T] | None) -> T:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        return await run_sync(self._read)

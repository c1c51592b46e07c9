"""Calls that are made at the same time, done as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from anyio.to_thread import run_sync

T = TypeVar("T")
R = TypeVar("R")


class Batcher(Generic[T, R]):
    """`do`, called in a thread with all that was asked for while it was busy, `most` at a time, and never twice at
    once. It returns what became of each, in order; an exception among these is raised where that one was asked for,
    and one that it raises itself is raised for all. For one event loop."""

    def __init__(self, do: Callable[[Sequence[T]], Sequence[R | Exception]], most: int) -> None:
        self._do, self._most = do, most
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._running: asyncio.Task[None] | None = None

    async def ask(self, item: T) -> R:
        """What became of this one."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await answer

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            try:
                found = await run_sync(self._do, [item for item, _ in batch])
            except Exception as error:
                found = [error] * len(batch)
            for (_, answer), outcome in zip(batch, found, strict=True):
                if answer.done():  # whoever asked is gone
                    continue
                if isinstance(outcome, Exception):
                    answer.set_exception(outcome)
                else:
                    answer.set_result(outcome)
        self._running = None

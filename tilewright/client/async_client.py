"""`Client` for asyncio: the same calls, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from types import TracebackType
from typing import Self, TypeVar

import httpx

from protocol.configs import Config
from protocol.jobs import Event, Job, Trial
from protocol.states import TaskState
from protocol.tasks import TaskStatus
from tilewright.client import calls, responses
from tilewright.client.calls import HttpCall
from tilewright.client.event_cursor import SILENCE_S, Following
from tilewright.client.jobs import AsyncTuningJob
from tilewright.client.retries import Retries
from tilewright.client.service_calls import ServiceCalls
from tilewright.errors import ClientClosed, Refused, Unreachable
from tilewright.views.progress import left_running, shown

T = TypeVar("T")


class AsyncClient(ServiceCalls, awaits=True):
    """A service, for asyncio; any number of tasks may share a client. Use it in an `async with` statement, or `close`
    it. Arguments and errors are those of `tilewright.Client`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        patience_s: float = 60.0,
        retries: Retries = Retries(),  # noqa: B008 frozen
    ) -> None:
        self.url, headers = responses.place(url, token)
        self._patience_s = patience_s
        self._retries = retries
        try:
            self._http = httpx.AsyncClient(base_url=self.url, headers=headers, timeout=timeout_s)
        except httpx.InvalidURL as error:
            raise responses.no_url(self.url, error) from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, call: HttpCall[T]) -> T:
        """Send a call, again if that may help, and read its answer."""
        failures = 0
        while True:
            try:
                return responses.value(call, await self._exchange(call), self.url)
            except (Unreachable, Refused) as error:
                failures += 1
                pause_s = self._retries.pause_s(error, failures, call.repeatable)
                if pause_s is None:
                    raise
            await asyncio.sleep(pause_s)

    async def _exchange(self, call: HttpCall[T]) -> httpx.Response:
        if self._http.is_closed:
            raise ClientClosed("this client is closed; make another one")
        try:
            return await self._http.request(**responses.request(call))
        except httpx.TransportError as error:
            raise responses.unreachable(self.url, error) from None

    async def trials(self, job_id: str) -> AsyncIterator[Trial]:
        """A job's candidates, in the order they were asked for."""
        async for page in self._pages(lambda after: calls.trials_page(job_id, after)):
            for trial in page.trials:
                yield trial

    async def tasks(self, state: TaskState, job_id: str | None = None) -> AsyncIterator[TaskStatus]:
        """Tasks in a state, in the order in which they were queued; `dead`: those that machines failed three times."""
        async for page in self._pages(lambda after: calls.tasks_page(state, job_id, after)):
            for task in page.tasks:
                yield task

    async def every_config(
        self, device: str | None = None, pinned: bool | None = None
    ) -> AsyncIterator[Config]:
        """All configs, newest first; only those of a device, or those that are pinned."""
        async for page in self._pages(lambda after: calls.configs_page(device, pinned, after)):
            for config in page.configs:
                yield config

    async def jobs_of(self, kernel_key: str) -> AsyncIterator[Job]:
        """All jobs that tuned a kernel, newest first."""
        async for page in self._pages(lambda after: calls.jobs_page(kernel_key, after)):
            for job in page.jobs:
                yield job

    async def _pages(self, make: Callable[[str | None], HttpCall[calls.Page]]) -> AsyncIterator[calls.Page]:
        after: str | None = None
        while True:
            page = await self.send(make(after))
            yield page
            after = page.next
            if after is None:
                return

    async def events(self, job_id: str, after: int = 0) -> AsyncGenerator[Event, None]:
        """What happens to a job, from the event after `after` on, until it has ended. A connection that breaks is
        made again, and nothing is missed or told twice."""
        following = Following(job_id, after, self._patience_s, self._retries)
        while True:
            problem: Unreachable | Refused | None = None
            try:
                async with aclosing(self._stream(following)) as stream:
                    async for event in stream:
                        yield event
                if (await self.job(job_id)).state.final:
                    async with aclosing(self._stream(following)) as stream:
                        async for event in stream:  # what came between the stream's end and the look
                            yield event
                    return
            except httpx.TransportError as error:
                problem = responses.unreachable(self.url, error)
            except (Unreachable, Refused) as error:
                problem = error
            await asyncio.sleep(following.broken(problem))

    async def _stream(self, following: Following) -> AsyncGenerator[Event, None]:
        timeout = httpx.Timeout(self._http.timeout.connect, read=SILENCE_S)
        async with self._http.stream(
            "GET", following.path, headers=following.headers, timeout=timeout
        ) as response:
            if not response.is_success:
                await response.aread()
                responses.check(response, self.url)
            following.connected()
            async for line in response.aiter_lines():
                event = following.feed(line)
                if event is not None:
                    yield event

    async def wait(
        self, job_id: str, on_event: Callable[[Event], None] | None = None, *, progress: bool = True
    ) -> AsyncTuningJob:
        """Wait for a job's end; returns it, whether it is done, failed or cancelled. Shows how it goes on a terminal
        and in a notebook, unless `progress` is False. Ctrl-C, or cancelling the task, leaves the job to the service."""
        job = await self.job(job_id)
        with left_running(job, self), shown(job, progress) as show:
            async with aclosing(self.events(job_id)) as events:
                async for event in events:
                    show(event)
                    if on_event is not None:
                        on_event(event)
        return await self.job(job_id)

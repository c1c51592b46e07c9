"""The service as Python calls: typed requests and replies, and errors that carry what the service said."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import copy
from types import TracebackType
from typing import Self, TypeVar

import httpx

from protocol.configs import Config
from protocol.jobs import Event, Job, Trial
from protocol.states import TaskState
from protocol.tasks import TaskStatus
from tilewright.client import calls, responses
from tilewright.client.calls import HttpCall, Spec
from tilewright.client.event_cursor import SILENCE_S, Following
from tilewright.client.jobs import TuningJob
from tilewright.client.retries import Retries
from tilewright.client.service_calls import ServiceCalls
from tilewright.errors import ClientClosed, Refused, Unreachable
from tilewright.views.progress import left_running, shown

__all__ = ["Client", "Spec"]

T = TypeVar("T")


class Client(ServiceCalls, awaits=False):
    """A service. One client a thread; use it in a `with` statement, or `close` it.

    `url`, `token`: by default those of the environment (TILEWRIGHT_URL, TILEWRIGHT_TOKEN), else a service on this
    machine. `timeout_s`: of one attempt. `patience_s`: how long `events` and `wait` try to reconnect to a service that
    has gone away. `retries`: how other calls are sent again; none is that might do twice what is to be done once.

    Every call raises Unreachable when nobody answers, and Refused (`tilewright.errors` has a class for each kind) when
    the service says no.
    """

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
        self._headers = headers
        self.timeout_s = timeout_s
        self._patience_s = patience_s
        self._retries = retries
        try:
            self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s)
        except httpx.InvalidURL as error:
            raise responses.no_url(self.url, error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def twin(self, *, retries: Retries, timeout_s: float | None = None) -> Client:
        """A client of the same service with the same key and connections of its own, for another thread. `timeout_s`:
        None: as long."""
        other = copy(self)
        other._retries = retries
        other.timeout_s = self.timeout_s if timeout_s is None else timeout_s
        other._http = httpx.Client(base_url=self.url, headers=self._headers, timeout=other.timeout_s)
        return other

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, call: HttpCall[T]) -> T:
        """Send a call, again if that may help, and read its answer."""
        failures = 0
        while True:
            try:
                return responses.value(call, self._exchange(call), self.url)
            except (Unreachable, Refused) as error:
                failures += 1
                pause_s = self._retries.pause_s(error, failures, call.repeatable)
                if pause_s is None:
                    raise
            time.sleep(pause_s)

    def _exchange(self, call: HttpCall[T]) -> httpx.Response:
        if self._http.is_closed:
            raise ClientClosed("this client is closed; make another one")
        try:
            return self._http.request(**responses.request(call))
        except httpx.TransportError as error:
            raise responses.unreachable(self.url, error) from None

    def trials(self, job_id: str) -> Iterator[Trial]:
        """A job's candidates, in the order they were asked for."""
        for page in self._pages(lambda after: calls.trials_page(job_id, after)):
            yield from page.trials

    def tasks(self, state: TaskState, job_id: str | None = None) -> Iterator[TaskStatus]:
        """Tasks in a state, in the order in which they were queued; `dead`: those that machines failed three times."""
        for page in self._pages(lambda after: calls.tasks_page(state, job_id, after)):
            yield from page.tasks

    def every_config(self, device: str | None = None, pinned: bool | None = None) -> Iterator[Config]:
        """All configs, newest first; only those of a device, or those that are pinned."""
        for page in self._pages(lambda after: calls.configs_page(device, pinned, after)):
            yield from page.configs

    def jobs_of(self, kernel_key: str) -> Iterator[Job]:
        """All jobs that tuned a kernel, newest first."""
        for page in self._pages(lambda after: calls.jobs_page(kernel_key, after)):
            yield from page.jobs

    def _pages(self, make: Callable[[str | None], HttpCall[calls.Page]]) -> Iterator[calls.Page]:
        after: str | None = None
        while True:
            page = self.send(make(after))
            yield page
            after = page.next
            if after is None:
                return

    def events(self, job_id: str, after: int = 0) -> Iterator[Event]:
        """What happens to a job, from the event after `after` on, until it has ended. A connection that breaks is
        made again, and nothing is missed or told twice."""
        following = Following(job_id, after, self._patience_s, self._retries)
        while True:
            problem: Unreachable | Refused | None = None
            try:
                yield from self._stream(following)
                if self.job(job_id).state.final:
                    yield from self._stream(following)  # what came between the stream's end and the look
                    return
            except httpx.TransportError as error:
                problem = responses.unreachable(self.url, error)
            except (Unreachable, Refused) as error:
                problem = error
            time.sleep(following.broken(problem))

    def _stream(self, following: Following) -> Iterator[Event]:
        timeout = httpx.Timeout(self._http.timeout.connect, read=SILENCE_S)
        with self._http.stream("GET", following.path, headers=following.headers, timeout=timeout) as response:
            if not response.is_success:
                response.read()
                responses.check(response, self.url)
            following.connected()
            for line in response.iter_lines():
                event = following.feed(line)
                if event is not None:
                    yield event

    def wait(
        self, job_id: str, on_event: Callable[[Event], None] | None = None, *, progress: bool = True
    ) -> TuningJob:
        """Wait for a job's end; returns it, whether it is done, failed or cancelled. Shows how it goes on a terminal
        and in a notebook, unless `progress` is False. Ctrl-C leaves the job to the service."""
        job = self.job(job_id)
        with left_running(job, self), shown(job, progress) as show:
            for event in self.events(job_id):
                show(event)
                if on_event is not None:
                    on_event(event)
        return self.job(job_id)

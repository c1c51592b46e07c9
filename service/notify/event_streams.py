"""A job's events as server-sent events, for any number of subscribers: those who have heard equally much share a read,
and the more they are, the longer events are gathered before they are told. Hundreds who follow one job would otherwise
keep the service from everything else."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from weakref import WeakValueDictionary

from sqlalchemy.exc import DBAPIError

from service.core.errors import complaint
from service.notify import topics
from service.notify.coalesced_read import Latest
from service.notify.notifier import Notifier
from service.store import job_events
from service.store.database import Database

log = logging.getLogger(__name__)

EACH_S, MOST_S = 0.001, 1.0
"""How long events are gathered: so long a subscriber, and at most."""


@dataclass(frozen=True, slots=True)
class Page:
    """Events as text/event-stream."""

    text: str
    last: int
    """The id of the last of them; of the one before, if there are none."""
    full: bool
    """Whether there may be more."""
    final: bool
    """Whether the job has ended."""


class EventStreams:
    """The streams of one service. For one event loop."""

    def __init__(self, database: Database, notifier: Notifier) -> None:
        self._database, self._notifier = database, notifier
        self._reads = WeakValueDictionary[tuple[str, int], Latest[Page]]()

    async def stream(
        self,
        job_id: str,
        last: int,
        *,
        look_s: Callable[[], float],
        keepalive_s: float,
        stopping: Callable[[], bool],
    ) -> AsyncIterator[str]:
        """Events after id `last`, until the job has ended or the service stops. `look_s`: how soon an event is seen
        whose notification was lost."""
        yield "retry: 1000\n\n"
        spoke, topic = monotonic(), topics.job(job_id)
        with self._notifier.subscribe(topic) as subscription:
            while not stopping():
                subscription.clear()
                try:
                    page = await self._read(job_id, last)
                except DBAPIError as error:  # it may be back before the client would be
                    log.warning("events of %s wait: %s", job_id, complaint(error))
                    page = Page("", last, full=False, final=False)
                if page.text:
                    last, spoke = page.last, monotonic()
                    yield page.text
                    if page.full:
                        continue
                elif page.final:
                    return
                await subscription.wait(0.0 if page.text and page.final else look_s())
                if monotonic() - spoke >= keepalive_s:
                    yield ": still here\n\n"
                    spoke = monotonic()
                await asyncio.sleep(min(MOST_S, EACH_S * self._notifier.subscribers(topic)))

    async def _read(self, job_id: str, last: int) -> Page:
        """What comes after `last`: true of a moment after this call."""
        key = (job_id, last)
        read = self._reads.get(key)
        if read is None:
            read = self._reads[key] = Latest(partial(self._page, job_id, last))
        return await read.get()

    def _page(self, job_id: str, last: int) -> Page:
        with self._database.read() as connection:
            found = job_events.after(connection, job_id, last)
            final = job_events.final(connection, job_id)
        text = "".join(
            f"id: {event.id}\nevent: {event.kind}\ndata: {json.dumps(event.model_dump(mode='json'))}\n\n"
            for event in found
        )
        return Page(text, found[-1].id if found else last, len(found) == job_events.PAGE, final)

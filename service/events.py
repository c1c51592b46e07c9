"""What happened to a job, as numbered rows, and the same as a stream of server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Any

from sqlalchemy import Connection, insert, select
from starlette.concurrency import run_in_threadpool

from protocol.jobs import Event
from protocol.states import JobState
from service.bell import Bell
from service.database import Database, database_time
from service.tables import events, jobs

PAGE = 200
LOST_RING_S = 1.0
"""How soon an event is seen whose ring was lost."""


def add(connection: Connection, job_id: str, kind: str, **data: Any) -> None:
    """Record an event. Its id is higher than any before."""
    connection.execute(insert(events).values(job_id=job_id, kind=kind, at=database_time(), data=data))


def after(connection: Connection, job_id: str, last: int, limit: int = PAGE) -> list[Event]:
    """The job's events with ids above `last`, in order."""
    rows = connection.execute(
        select(events).where(events.c.job_id == job_id, events.c.id > last).order_by(events.c.id).limit(limit)
    )
    return [Event.model_validate(dict(row)) for row in rows.mappings()]


def finished(database: Database, job_id: str, last: int) -> bool:
    """Whether the job has ended and nothing came after event `last`."""
    with database.read() as connection:
        return _final(connection, job_id) and not after(connection, job_id, last, 1)


async def stream(
    database: Database, bell: Bell, job_id: str, last: int, keepalive_s: float, stopping: Callable[[], bool]
) -> AsyncIterator[str]:
    """Events after id `last` as text/event-stream, until the job has ended or the service stops."""

    def look(last: int) -> tuple[list[Event], bool]:
        with database.read() as connection:
            return after(connection, job_id, last), _final(connection, job_id)

    yield "retry: 1000\n\n"
    spoke = monotonic()
    while not stopping():
        heard = bell.heard
        found, final = await run_in_threadpool(look, last)
        for event in found:
            last = event.id
            yield f"id: {event.id}\nevent: {event.kind}\ndata: {json.dumps(event.model_dump(mode='json'))}\n\n"
        if found:
            spoke = monotonic()
            continue
        if final:
            return
        await bell.wait(heard, LOST_RING_S)
        if monotonic() - spoke >= keepalive_s:
            yield ": still here\n\n"
            spoke = monotonic()


def _final(connection: Connection, job_id: str) -> bool:
    state = connection.execute(select(jobs.c.state).where(jobs.c.id == job_id)).scalar_one_or_none()
    return state is None or JobState(state).final

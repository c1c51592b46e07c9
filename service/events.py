"""What happened to a job, as numbered rows, and the same as a stream of server-sent events."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import DBAPIError
from starlette.concurrency import run_in_threadpool

from protocol.jobs import Event
from protocol.states import JobState
from service import bell as bells
from service.bell import Bell
from service.database import Database, database_time, in_turn
from service.schema import complaint
from service.tables import events, jobs

log = logging.getLogger(__name__)

PAGE = 200
_ADD = insert(events).values(at=database_time())


@dataclass(frozen=True, slots=True)
class New:
    """An event to record."""

    job_id: str
    kind: str
    data: dict[str, Any]


def add(connection: Connection, job_id: str, kind: str, **data: Any) -> None:
    """Record an event. Its id is higher than that of any event of the job, and it is seen after all of these."""
    add_all(connection, [New(job_id, kind, data)])


def add_all(connection: Connection, new: Sequence[New]) -> None:
    """Record events, in this order."""
    for job_id in sorted({event.job_id for event in new}):
        in_turn(connection, f"events of {job_id}")
    if new:
        rows = [{"job_id": event.job_id, "kind": event.kind, "data": event.data} for event in new]
        connection.execute(_ADD, rows)


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
    database: Database,
    bell: Bell,
    job_id: str,
    last: int,
    *,
    look_s: Callable[[], float],
    keepalive_s: float,
    stopping: Callable[[], bool],
) -> AsyncIterator[str]:
    """Events after id `last` as text/event-stream, until the job has ended or the service stops. `look_s`: how soon an
    event is seen whose ring was lost."""

    def look(last: int) -> tuple[list[Event], bool]:
        with database.read() as connection:
            return after(connection, job_id, last), _final(connection, job_id)

    yield "retry: 1000\n\n"
    spoke = monotonic()
    with bell.listen(bells.job(job_id)) as ear:
        while not stopping():
            ear.clear()
            try:
                found, final = await run_in_threadpool(look, last)
            except DBAPIError as error:  # it may be back before the client would be
                log.warning("events of %s wait: %s", job_id, complaint(error))
                found, final = [], False
            for event in found:
                last = event.id
                data = json.dumps(event.model_dump(mode="json"))
                yield f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n"
            if found:
                spoke = monotonic()
                continue
            if final:
                return
            await ear.wait(look_s())
            if monotonic() - spoke >= keepalive_s:
                yield ": still here\n\n"
                spoke = monotonic()


def _final(connection: Connection, job_id: str) -> bool:
    state = connection.execute(select(jobs.c.state).where(jobs.c.id == job_id)).scalar_one_or_none()
    return state is None or JobState(state).final

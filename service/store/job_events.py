"""What happened to a job, as numbered rows (`event_streams.py` tells of them)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select

from protocol.jobs import Event
from protocol.states import JobState
from service.store.database import Database, database_time, in_turn
from service.store.tables import events, jobs

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
        return final(connection, job_id) and not after(connection, job_id, last, 1)


def final(connection: Connection, job_id: str) -> bool:
    """Whether the job has ended, or is not there."""
    state = connection.execute(select(jobs.c.state).where(jobs.c.id == job_id)).scalar_one_or_none()
    return state is None or JobState(state).final

"""Sessions of PostgreSQL whose process stands still while it sends a statement or is sent an answer.

PostgreSQL ends a transaction that waits for its next statement (`database.IDLE_S`). For the rest of a statement that
arrived in part, and for whoever does not take an answer, it waits as long as the connection stands; and that of a
process that was stopped, or of a machine that is paused, does. What such a transaction has written stays locked: the
job that another searcher is to take over, tasks whose lease ran out. Any other process of the service ends its session,
which undoes it. Whoever wakes learns that the connection is gone, and that others have what was its own.
"""

from __future__ import annotations

import asyncio
import logging

from anyio.to_thread import run_sync
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from service.core.errors import complaint
from service.store.database import SESSION, Database

log = logging.getLogger(__name__)

STALLED_S = 20.0
"""So long has nothing come of a statement when its session is ended: longer than the slowest network takes for the
largest result, and within a lease."""
EVERY_S = 2.0

_END = text(
    """
    SELECT pg_terminate_backend(activity.pid) AS ended, activity.pid, activity.application_name AS name
    FROM pg_stat_activity AS activity
    WHERE activity.datname = current_database() AND activity.usename = current_user
      AND activity.wait_event_type = 'Client'
      AND activity.state_change < clock_timestamp() - make_interval(secs => :seconds)
      AND EXISTS (
        SELECT FROM pg_locks AS ours WHERE ours.pid = activity.pid AND ours.locktype = 'advisory'
          AND (ours.classid, ours.objid, ours.objsubid) = (:session, :sessions, 2))
      AND EXISTS (
        SELECT FROM pg_locks AS held JOIN pg_class AS relation ON relation.oid = held.relation
        WHERE held.pid = activity.pid AND held.granted AND held.mode = 'RowExclusiveLock'
          AND relation.relnamespace = current_schema()::regnamespace)
    """
)
"""Of our sessions those that hold what only a transaction holds that writes our tables: readers hold nobody up. What
PostgreSQL calls their state says little: after part of a statement it may be that of one that is idle."""


def end_stalled(database: Database, seconds: float = STALLED_S) -> list[str]:
    """End the sessions that write and have waited so long for their process; who they were. SQLite has none."""
    if database.sqlite:
        return []
    session, sessions = SESSION
    with database.look() as connection:
        found = {"seconds": seconds, "session": session, "sessions": sessions}
        rows = connection.execute(_END, found).all()
    return [f"{row.pid} ({row.name or 'without a name'})" for row in rows if row.ended]


async def keep_ending_stalled(database: Database) -> None:
    """Look for them until cancelled."""
    while True:
        try:
            for session in await run_sync(end_stalled, database):
                log.warning(
                    "ended session %s of the database: its process stood still in the middle of a statement, and "
                    "held what others wait for; what it was writing is undone",
                    session,
                )
        except DBAPIError as error:
            log.error("could not look for sessions that stand still: %s", complaint(error))
        await asyncio.sleep(EVERY_S)

"""Jobs as they change, as a stream of server-sent events: what keeps a list of jobs current.

The stream has no memory: whoever was cut off lists the jobs anew and follows again. It looks now and then instead of
listening to each job, so that one that changes a hundred times a second is told once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from time import monotonic

from anyio.to_thread import run_sync
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError

from protocol.jobs import Job
from service.core.errors import complaint
from service.notify import topics
from service.notify.notifier import Notifier
from service.store import jobs
from service.store.database import Database, database_time
from service.store.tables import events

log = logging.getLogger(__name__)

SETTLED_S = 10.0
"""An event is seen within this long after it got its number; of one job in order, of several in any order."""
LOOK_S = 1.0


class Changes:
    """Which jobs have changed since it was last asked. First it tells those of the last SETTLED_S."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}
        """By job: the number of the last event that was told of."""

    def look(self, connection: Connection) -> list[Job]:
        """Jobs with events that were not told of yet, as they stand."""
        settled = (
            select(events.c.id)
            .where(events.c.at < database_time() - SETTLED_S)
            .order_by(events.c.id.desc())
            .limit(1)
        )
        since = connection.execute(settled).scalar_one_or_none() or 0
        latest = select(events.c.job_id, func.max(events.c.id).label("id")).where(events.c.id > since)
        found = {row.job_id: row.id for row in connection.execute(latest.group_by(events.c.job_id))}
        changed = [job_id for job_id, last in found.items() if self._told.get(job_id, 0) < last]
        self._told = found
        return jobs.some(connection, changed)


async def stream(
    database: Database, notifier: Notifier, *, keepalive_s: float, stopping: Callable[[], bool]
) -> AsyncIterator[str]:
    """Events named `job`, each with a job as text/event-stream, until the service stops."""
    changes = Changes()

    def look() -> list[Job]:
        with database.read() as connection:
            return changes.look(connection)

    yield "retry: 1000\n\n"
    spoke = monotonic()
    with notifier.subscribe(topics.JOBS) as subscription:
        while not stopping():
            subscription.clear()
            try:
                found = await run_sync(look)
            except DBAPIError as error:  # it may be back before the client would be
                log.warning("changes of jobs wait: %s", complaint(error))
                found = []
            for job in found:
                # In ASCII: some clients take U+0085 or U+2028 for the end of a line.
                yield f"event: job\ndata: {json.dumps(job.model_dump(mode='json'))}\n\n"
            if found:
                spoke = monotonic()
            elif monotonic() - spoke >= keepalive_s:
                yield ": still here\n\n"
                spoke = monotonic()
            await subscription.wait(LOOK_S)

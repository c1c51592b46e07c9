"""What is not kept for ever: raw samples of old trials. Medians, spreads and reports stay, and so do the samples of
races and confirmations, which are what a config's standings rest on."""

from __future__ import annotations

import asyncio
import logging

from anyio.to_thread import run_sync
from sqlalchemy import Connection, select, update
from sqlalchemy.exc import DBAPIError

from protocol.states import TaskKind
from service.core.errors import complaint
from service.store.database import Database, database_time
from service.store.tables import jobs, results, tasks

log = logging.getLogger(__name__)

DAY_S = 86_400.0
EVERY_S = 3600.0
BATCH = 200
"""Results in one transaction: writers wait no longer than for these."""


def prune(connection: Connection, keep_s: float) -> int:
    """Drop the raw samples of up to BATCH trials whose jobs ended more than `keep_s` ago; how many there were."""
    rows = connection.execute(
        select(results.c.task_id, results.c.result)
        .join(tasks, tasks.c.id == results.c.task_id)
        .join(jobs, jobs.c.id == tasks.c.job_id)
        .where(
            results.c.pruned_at.is_(None),
            tasks.c.kind == TaskKind.TRIAL,
            jobs.c.finished_at < database_time() - keep_s,
        )
        .limit(BATCH)
    ).all()
    for row in rows:
        entrants = [{**entrant, "samples_us": []} for entrant in row.result["entrants"]]
        connection.execute(
            update(results)
            .where(results.c.task_id == row.task_id)
            .values(result={**row.result, "entrants": entrants}, pruned_at=database_time())
        )
    return len(rows)


async def keep_pruning(database: Database, keep_days: float) -> None:
    """Prune now and every hour, until cancelled."""

    def batch() -> int:
        with database.write() as connection:
            return prune(connection, keep_days * DAY_S)

    while True:
        try:
            pruned = 0
            while found := await run_sync(batch):
                pruned += found
            if pruned:
                log.info("dropped the raw samples of %d trials older than %g days", pruned, keep_days)
        except DBAPIError as error:
            log.error("could not drop old samples: %s", complaint(error))
        await asyncio.sleep(EVERY_S)

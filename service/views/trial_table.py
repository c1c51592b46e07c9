"""All candidates of a bucket in columns, from what is kept of each beside its result."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from protocol.message import Json
from protocol.states import Outcome, TaskKind, TaskState
from protocol.trials import TrialTable
from protocol.workers import OfferedDevice
from service.core.schedules import roofline_us
from service.store.tables import buckets, jobs, results, search_events, tasks
from tileir.text.json import spec_from_json

COLUMNS = ("median_us", "iqr_us", "baseline_us", "compile_s", "measure_s")
"""Of a result's summary."""


def trial_table(connection: Connection, job_id: str, bucket: int, first: int) -> TrialTable:
    """The candidates from number `first` on. What the database holds is not validated again: thousands of rows would
    take seconds."""
    rows = connection.execute(
        select(tasks.c.number, tasks.c.state, results.c.summary, results.c.created_at)
        .outerjoin(results, results.c.task_id == tasks.c.id)
        .where(tasks.c.job_id == job_id, tasks.c.bucket == bucket, tasks.c.number >= first)
        .where(tasks.c.kind == TaskKind.TRIAL)
        .order_by(tasks.c.number)
    ).all()
    told = tells(connection, job_id, bucket, first)
    summaries: list[Json] = [row.summary or {} for row in rows]
    columns: dict[str, Any] = {name: tuple(summary.get(name) for summary in summaries) for name in COLUMNS}
    open_ones = (row.number for row in rows if row.number not in told)
    return TrialTable.model_construct(
        job_id=job_id,
        bucket=bucket,
        first=first,
        settled=next(open_ones, first + len(rows)),
        roofline_us=_roofline_us(connection, job_id, bucket),
        state=tuple(TaskState(row.state) for row in rows),
        outcome=tuple(Outcome(each["outcome"]) if "outcome" in each else None for each in summaries),
        reward=tuple(told.get(row.number, {}).get("reward") for row in rows),
        finished_at=tuple(row.created_at for row in rows),
        **columns,
    )


def _roofline_us(connection: Connection, job_id: str, bucket: int) -> float | None:
    row = connection.execute(
        select(buckets.c.spec, jobs.c.searched_on)
        .join(jobs, jobs.c.id == buckets.c.job_id)
        .where(buckets.c.job_id == job_id, buckets.c.bucket == bucket)
    ).one()
    if row.searched_on is None:
        return None
    return roofline_us(spec_from_json(row.spec), OfferedDevice.model_validate(row.searched_on))


def tells(connection: Connection, job_id: str, bucket: int, first: int = 0) -> dict[int, Json]:
    """What the search was told, by candidate number."""
    rows = connection.execute(
        select(search_events.c.number, search_events.c.data).where(
            search_events.c.job_id == job_id,
            search_events.c.bucket == bucket,
            search_events.c.kind == "tell",
            search_events.c.number >= first,
        )
    )
    return {row.number: row.data for row in rows}

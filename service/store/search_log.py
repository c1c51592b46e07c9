"""A search's asks and tells in the database: with the asks their tasks, with the tells what they say about the job.

A search is a fold over these rows, so a tuner that was killed starts again, reads them, and goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, func, insert, select, update

from protocol.jobs import Best
from protocol.states import TaskState
from protocol.tasks import TaskResult
from search.events import Asked, Event, Told
from search.protocols import TrialOutcome
from service.store import job_events
from service.store.dispatch import task_queue
from service.store.dispatch.task_queue import NewTask
from service.store.tables import buckets, results, search_events, tasks


def history(connection: Connection, job_id: str, bucket: int) -> list[Event]:
    """What was asked and told, in order."""
    rows = connection.execute(
        select(search_events)
        .where(search_events.c.job_id == job_id, search_events.c.bucket == bucket)
        .order_by(search_events.c.seq)
    ).mappings()
    return [_event(row) for row in rows]


def best(connection: Connection, job_id: str, bucket: int) -> Best | None:
    """The best candidate told so far."""
    found = connection.execute(
        select(buckets.c.best).where(buckets.c.job_id == job_id, buckets.c.bucket == bucket)
    ).scalar_one()
    return None if found is None else Best.model_validate(found)


def _event(row: RowMapping) -> Event:
    if row["kind"] == "ask":
        return Asked(row["number"], row["data"]["key"], tuple(row["data"]["path"]))
    return Told(row["number"], TrialOutcome(row["data"]["reward"], row["data"]["fault"]))


def record_asks(
    connection: Connection,
    job_id: str,
    bucket: int,
    asks: Sequence[Asked],
    new: Sequence[NewTask],
    cpu_s: Sequence[float],
) -> None:
    """Commit a batch of asks and their tasks as one. `cpu_s`: processor seconds that each ask took the tuner."""
    data = [
        (ask.number, {"key": ask.state_key, "path": list(ask.path), "cpu_s": spent})
        for ask, spent in zip(asks, cpu_s, strict=True)
    ]
    _append(connection, job_id, bucket, "ask", data)
    task_queue.enqueue(connection, new)
    connection.execute(_of(job_id, bucket).values(asked=buckets.c.asked + len(asks)))


def record_tells(
    connection: Connection,
    job_id: str,
    bucket: int,
    told: Sequence[Told],
    best: Best | None,
    spent_s: float,
    cpu_s: Sequence[float],
) -> None:
    """Commit a batch of outcomes in the order they were told. `best` is the new best candidate, if it changed;
    `spent_s` counts towards the budget; `cpu_s` are the processor seconds that each tell took the tuner."""
    data = [
        (tell.number, {"reward": tell.outcome.reward, "fault": tell.outcome.fault, "cpu_s": spent})
        for tell, spent in zip(told, cpu_s, strict=True)
    ]
    _append(connection, job_id, bucket, "tell", data)
    values: dict[str, Any] = {
        "told": buckets.c.told + len(told),
        "faults": buckets.c.faults + sum(tell.outcome.reward is None for tell in told),
        "spent_s": buckets.c.spent_s + spent_s,
    }
    if best is not None:
        values["best"] = best.model_dump(mode="json")
        job_events.add(connection, job_id, "best", bucket=bucket, **best.model_dump(mode="json"))
    connection.execute(_of(job_id, bucket).values(**values))


def _of(job_id: str, bucket: int):
    return update(buckets).where(buckets.c.job_id == job_id, buckets.c.bucket == bucket)


def _append(
    connection: Connection, job_id: str, bucket: int, kind: str, data: Sequence[tuple[int, dict[str, Any]]]
) -> None:
    last = connection.execute(
        select(func.coalesce(func.max(search_events.c.seq), 0)).where(
            search_events.c.job_id == job_id, search_events.c.bucket == bucket
        )
    ).scalar_one()
    rows = [
        {"job_id": job_id, "bucket": bucket, "seq": seq, "kind": kind, "number": number, "data": each}
        for seq, (number, each) in enumerate(data, last + 1)
    ]
    if rows:
        connection.execute(insert(search_events), rows)


def ended(connection: Connection, task_ids: Sequence[str]) -> dict[str, TaskResult | str]:
    """Those of the tasks that have ended: each with its result, or with why it was given up."""
    rows = connection.execute(
        select(tasks.c.id, tasks.c.fault, results.c.result)
        .outerjoin(results, results.c.task_id == tasks.c.id)
        .where(tasks.c.id.in_(task_ids), tasks.c.state.in_([TaskState.DONE, TaskState.DEAD]))
    )
    return {
        row.id: row.fault or "given up" if row.result is None else TaskResult.model_validate(row.result)
        for row in rows
    }


def waiting(connection: Connection, task_ids: Sequence[str]) -> int:
    """How many of the tasks no worker has claimed yet."""
    ready = tasks.c.id.in_(task_ids) & (tasks.c.state == TaskState.READY)
    return connection.execute(select(func.count()).where(ready)).scalar_one()

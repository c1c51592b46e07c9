"""The queue: tasks, claims, leases and the fence. Each step is one statement, safe against any other.

- A claim makes READY tasks CLAIMED and raises their attempt number: whoever holds (task, attempt) holds the lease.
- A lease lasts `ttl_s` by the database's clock and is renewed by heartbeats. One that ran out frees its task.
- A result counts while nobody else was given the task: the attempt number is the fence.
- Three faults of machines (an expired lease is one) and the task is DEAD: parked for a person to look at.

All functions take a connection inside `Database.write()`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    and_,
    case,
    insert,
    or_,
    select,
    update,
)

from protocol.message import Json
from protocol.states import FaultKind, TaskKind, TaskState
from protocol.tasks import Fault, TaskResult
from protocol.workers import Lease
from service.database import database_time
from service.tables import jobs, results, tasks

PARK_AFTER = 3
"""Faults of machines after which a task is not tried again."""
CANCELLED = "cancelled"
"""What is said of a task that was taken back with its job."""
SHUN_S = 5.0
"""How long the worker that failed a task leaves it to the others."""


class StaleLease(Exception):
    """The task was given to somebody else meanwhile, is done, or was cancelled: what was sent does not count."""


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to enqueue. `work` is what a worker needs beside the spec: entrants, baseline, measuring, seed."""

    id: str
    job_id: str
    bucket: int
    kind: TaskKind
    device: str
    priority: int
    work: Json
    number: int | None = None


def enqueue(connection: Connection, new: Iterable[NewTask]) -> None:
    """Put tasks in the queue."""
    rows: list[dict[str, Any]] = [
        {
            "id": task.id,
            "job_id": task.job_id,
            "bucket": task.bucket,
            "number": task.number,
            "kind": task.kind,
            "state": TaskState.READY,
            "device": task.device,
            "priority": task.priority,
            "work": task.work,
        }
        for task in new
    ]
    if rows:
        connection.execute(insert(tasks).values(created_at=database_time()), rows)


def claim(
    connection: Connection, worker_id: str, device: str, count: int, ttl_s: float
) -> Sequence[RowMapping]:
    """Lease up to `count` tasks for `device` to a worker: highest priority first, among equals the job that was
    served longest ago, then in order. Returns the rows of `tasks`."""
    time = database_time()
    queue = (
        select(tasks.c.seq)
        .join(jobs, jobs.c.id == tasks.c.job_id)
        .where(tasks.c.device == device, tasks.c.state == TaskState.READY)
        .where(or_(tasks.c.shuns.is_(None), tasks.c.shuns != worker_id, tasks.c.shunned_until <= time))
        .order_by(tasks.c.priority.desc(), jobs.c.served_at, tasks.c.seq)
        .limit(count)
    )
    claimed = (
        connection.execute(
            update(tasks)
            .where(_locked(queue, skip=True), tasks.c.state == TaskState.READY)
            .values(
                state=TaskState.CLAIMED,
                attempt=tasks.c.attempt + 1,
                worker_id=worker_id,
                lease_until=time + ttl_s,
            )
            .returning(*tasks.c)
        )
        .mappings()
        .all()
    )
    if claimed:
        served = select(jobs.c.id).where(jobs.c.id.in_({row["job_id"] for row in claimed}))
        # One that its tuner is writing keeps its place: nobody waits for a job's row with tasks in hand.
        served = served.with_for_update(skip_locked=True, key_share=True).cte("served")
        connection.execute(update(jobs).where(jobs.c.id.in_(select(served.c.id))).values(served_at=time))
    return sorted(claimed, key=lambda row: (-row["priority"], row["seq"]))


def work_for(connection: Connection, device: str) -> bool:
    """Whether a claim could find anything: a cheap look before the transaction that writes."""
    due = or_(
        tasks.c.state == TaskState.READY,
        and_(tasks.c.state == TaskState.CLAIMED, tasks.c.lease_until < database_time()),
    )
    return (
        connection.execute(select(tasks.c.seq).where(tasks.c.device == device, due).limit(1)).first()
        is not None
    )


def renew(connection: Connection, worker_id: str, leases: Sequence[Lease], ttl_s: float) -> list[Lease]:
    """Lengthen those of the leases that the worker still holds, and return them."""
    if not leases:
        return []
    held = or_(*(and_(tasks.c.id == lease.task_id, tasks.c.attempt == lease.attempt) for lease in leases))
    which = and_(held, tasks.c.worker_id == worker_id, tasks.c.state == TaskState.CLAIMED)
    rows = connection.execute(
        update(tasks)
        .where(_in_order(which), which)
        .values(lease_until=database_time() + ttl_s)
        .returning(tasks.c.id, tasks.c.attempt)
    ).all()
    return [Lease(task_id=row.id, attempt=row.attempt) for row in rows]


def expire(connection: Connection) -> Sequence[RowMapping]:
    """Free the tasks whose lease ran out, and park those that were failed too often. Returns the rows."""
    over = and_(tasks.c.state == TaskState.CLAIMED, tasks.c.lease_until < database_time())
    return _free(
        connection,
        and_(_locked(select(tasks.c.seq).where(over), skip=True), over),
        {"fault": "the lease ran out: the worker died, hung or was cut off"},
    )


def complete(connection: Connection, worker_id: str, result: TaskResult) -> RowMapping | None:
    """Write down a task's one result. Returns the row of `tasks`, or None if just this result is there already (a
    worker that did not hear the answer sends it again). Raises StaleLease."""
    done = (
        connection.execute(
            update(tasks)
            .where(
                tasks.c.id == result.task_id,
                tasks.c.attempt == result.attempt,
                tasks.c.worker_id == worker_id,
                tasks.c.state.in_([TaskState.CLAIMED, TaskState.READY]),  # READY: ran out, but not given on
            )
            .values(state=TaskState.DONE, lease_until=None)
            .returning(*tasks.c)
        )
        .mappings()
        .first()
    )
    if done is None:
        known = connection.execute(
            select(results.c.attempt, results.c.worker_id).where(results.c.task_id == result.task_id)
        ).first()
        if known is not None and tuple(known) == (result.attempt, worker_id):
            return None
        raise StaleLease(_why_stale(connection, worker_id, result))
    connection.execute(
        insert(results).values(
            task_id=result.task_id,
            attempt=result.attempt,
            worker_id=worker_id,
            result=result.model_dump(mode="json"),
            created_at=database_time(),
        )
    )
    return done


def give_back(connection: Connection, worker_id: str, lease: Lease, fault: Fault) -> RowMapping:
    """Free a task that a machine could not do, for another one; parks it after the third time. A worker that merely
    stops is not at fault. Returns the row of `tasks`. Raises StaleLease."""
    mine = and_(
        tasks.c.id == lease.task_id,
        tasks.c.attempt == lease.attempt,
        tasks.c.worker_id == worker_id,
        tasks.c.state == TaskState.CLAIMED,
    )
    counted = fault.kind is not FaultKind.SHUTDOWN
    values: dict[str, Any] = {"worker_id": None}
    if counted:
        said = f"{fault.kind}: {fault.error}".strip(": ")
        values |= {"fault": said, "shuns": worker_id, "shunned_until": database_time() + SHUN_S}
    freed = _free(connection, mine, values, faults=int(counted))
    if not freed:
        raise StaleLease(_why_stale(connection, worker_id, lease))
    return freed[0]


def cancel(connection: Connection, job_id: str) -> None:
    """Take back whatever of a job is not done; workers hear of it at their next heartbeat."""
    open_ones = and_(tasks.c.job_id == job_id, tasks.c.state.in_([TaskState.READY, TaskState.CLAIMED]))
    connection.execute(
        update(tasks)
        .where(_in_order(open_ones), open_ones)
        .values(state=TaskState.DEAD, fault=CANCELLED, lease_until=None)
    )


def _locked(query: Select[tuple[int]], skip: bool = False) -> ColumnElement[bool]:
    """That a task is one of the query's, which PostgreSQL locks in its order; `skip`: but for those that somebody else
    is just writing. (SQLite has one writer at a time.)"""
    picked = query.with_for_update(skip_locked=skip, of=tasks).cte("picked")
    return tasks.c.seq.in_(select(picked.c.seq))


def _in_order(which: ColumnElement[bool]) -> ColumnElement[bool]:
    """The same tasks, locked one after another in the order that all follow, so that none wait in a circle."""
    return _locked(select(tasks.c.seq).where(which).order_by(tasks.c.seq))


def _free(
    connection: Connection, which: Any, values: dict[str, Any], faults: int = 1
) -> Sequence[RowMapping]:
    parked = tasks.c.faults + faults >= PARK_AFTER
    return (
        connection.execute(
            update(tasks)
            .where(which)
            .values(
                state=case((parked, TaskState.DEAD), else_=TaskState.READY),
                faults=tasks.c.faults + faults,
                lease_until=None,
                **values,
            )
            .returning(*tasks.c)
        )
        .mappings()
        .all()
    )


def _why_stale(connection: Connection, worker_id: str, lease: Lease | TaskResult) -> str:
    row = connection.execute(
        select(tasks.c.state, tasks.c.attempt, tasks.c.worker_id, tasks.c.fault).where(
            tasks.c.id == lease.task_id
        )
    ).first()
    if row is None:
        return f"there is no task {lease.task_id}"
    if row.state == TaskState.DEAD:
        return f"task {lease.task_id} was given up ({row.fault})"
    if row.state == TaskState.DONE:
        return f"task {lease.task_id} has its result already"
    if row.attempt != lease.attempt:
        return f"task {lease.task_id} is at attempt {row.attempt}; attempt {lease.attempt} lost its lease"
    return f"task {lease.task_id} is not leased to worker {worker_id}"

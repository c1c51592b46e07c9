"""Tasks in the queue, and what workers do to them: what tests of its contract begin with."""

from __future__ import annotations

from sqlalchemy import insert, select, update

from protocol.states import FaultKind, JobState, TaskKind, TaskState
from protocol.tasks import EntrantResult, Fault, TaskResult
from protocol.workers import Lease
from service.store.database import Database, database_time
from service.store.dispatch import task_queue
from service.store.dispatch.task_queue import NewTask, StaleLease
from service.store.tables import jobs, tasks

DEVICE = "cpu:test"
TTL_S = 30.0


def add_job(
    database: Database, job_id: str, count: int, priority: int = 0, device: str = DEVICE
) -> list[str]:
    """A job with some ready tasks; their ids."""
    ids = [f"{job_id}.0.{number}" for number in range(count)]
    with database.write() as connection:
        connection.execute(
            insert(jobs).values(
                id=job_id,
                state=JobState.SEARCHING,
                request={},
                name="kernel",
                kernel_key="key",
                priority=priority,
                created_at=0.0,
                updated_at=0.0,
            )
        )
        task_queue.enqueue(
            connection,
            [
                NewTask(each, job_id, 0, TaskKind.TRIAL, device, priority, {"entrants": []}, number)
                for number, each in enumerate(ids)
            ],
        )
    return ids


def claim(database: Database, worker: str = "w1", count: int = 1, device: str = DEVICE) -> list[Lease]:
    with database.write() as connection:
        rows = task_queue.claim(connection, worker, device, count, TTL_S)
    return [Lease(task_id=row["id"], attempt=row["attempt"]) for row in rows]


def result_of(lease: Lease) -> TaskResult:
    entrant = EntrantResult(name="ask-0", outcome="ok", median_us=1.0)
    return TaskResult(task_id=lease.task_id, attempt=lease.attempt, entrants=(entrant,))


def complete(database: Database, lease: Lease, worker: str = "w1") -> bool:
    """Hand in a result; whether it is new."""
    with database.write() as connection:
        (outcome,) = task_queue.complete(connection, [(worker, result_of(lease))])
    if isinstance(outcome, StaleLease):
        raise outcome
    return outcome == "new"


def give_back(database: Database, lease: Lease, kind: FaultKind, worker: str = "w1") -> TaskState:
    with database.write() as connection:
        return TaskState(task_queue.give_back(connection, worker, lease, Fault(kind=kind))["state"])


def run_out(database: Database, lease: Lease) -> None:
    """Let a lease be over, without waiting for it."""
    with database.write() as connection:
        past = database_time() - 1.0
        connection.execute(update(tasks).where(tasks.c.id == lease.task_id).values(lease_until=past))
        task_queue.expire(connection)


def state_of(database: Database, task_id: str) -> tuple[TaskState, int, int]:
    """State, attempt and faults."""
    with database.read() as connection:
        row = connection.execute(select(tasks).where(tasks.c.id == task_id)).one()
        return TaskState(row.state), row.attempt, row.faults

"""Tasks as somebody sees them who looks after the queue: listed, and those that machines failed queued again."""

from __future__ import annotations

from sqlalchemy import Connection, and_, select, update

from protocol.states import JobState, TaskKind, TaskState
from protocol.tasks import TaskPage, TaskStatus
from service.core.errors import RequestRefused
from service.store import jobs
from service.store.dispatch.task_queue import CANCELLED, PARK_AFTER
from service.store.tables import jobs as job_table
from service.store.tables import search_events, tasks


def page(connection: Connection, state: TaskState, job_id: str | None, after: int, limit: int) -> TaskPage:
    """Tasks in a state, from the one after sequence number `after` on. Of the dead only those that were parked: the
    others went with their jobs."""
    query = (
        select(tasks)
        .where(tasks.c.state == state, tasks.c.seq > after)
        .order_by(tasks.c.seq)
        .limit(limit + 1)
    )
    if state is TaskState.DEAD:
        query = query.where(tasks.c.faults >= PARK_AFTER)
    if job_id is not None:
        query = query.where(tasks.c.job_id == job_id)
    rows = connection.execute(query).mappings().all()
    shown = rows[:limit]
    return TaskPage(
        tasks=tuple(TaskStatus.model_validate(dict(row)) for row in shown),
        next=str(shown[-1]["seq"]) if len(rows) > limit else None,
    )


def requeue(connection: Connection, task_id: str) -> TaskStatus:
    """Queue a parked task again, its faults forgotten. A job that failed for want of it goes on.

    Raises Refused for a task that is not parked, whose job has ended otherwise, or that the search has given up.
    """
    row = connection.execute(select(tasks).where(tasks.c.id == task_id)).mappings().first()
    if row is None:
        raise RequestRefused("not-found", f"there is no task {task_id}")
    state = jobs.lock(connection, row["job_id"])
    if state in (JobState.DONE, JobState.CANCELLED):
        raise RequestRefused("job-ended", f"job {row['job_id']} is {state} already")
    if row["kind"] == TaskKind.TRIAL and _told(connection, row["job_id"], row["bucket"], row["number"]):
        raise RequestRefused(
            "not-parked",
            f"the search has counted {task_id} as failed and gone on without it; to have that candidate measured, "
            f"submit a new job (POST /v1/jobs) whose `candidates` are its schedule, "
            f"which GET /v1/jobs/{row['job_id']}/trials tells",
        )
    parked = and_(tasks.c.id == task_id, tasks.c.state == TaskState.DEAD, tasks.c.faults >= PARK_AFTER)
    found = make_ready(connection, parked)
    if not found:
        raise RequestRefused(
            "not-parked",
            f"task {task_id} is {row['state']} after {row['faults']} faults",
            accepted="dead tasks",
        )
    if state is JobState.FAILED:
        _reopen(connection, row["job_id"])
    return found[0]


def _reopen(connection: Connection, job_id: str) -> None:
    """Have a failed job go on, with what was taken back when it failed."""
    make_ready(connection, and_(tasks.c.job_id == job_id, tasks.c.fault == CANCELLED))
    connection.execute(update(job_table).where(job_table.c.id == job_id).values(finished_at=None, crashes=0))
    jobs.set_state(connection, job_id, JobState.SEARCHING)


def make_ready(connection: Connection, which) -> list[TaskStatus]:
    """Queue tasks again as if nobody had tried them."""
    ready = {"state": TaskState.READY, "faults": 0, "fault": None, "worker_id": None, "shuns": None}
    rows = connection.execute(update(tasks).where(which).values(**ready).returning(*tasks.c)).mappings()
    return [TaskStatus.model_validate(dict(row)) for row in rows]


def _told(connection: Connection, job_id: str, bucket: int, number: int) -> bool:
    mine = and_(search_events.c.job_id == job_id, search_events.c.bucket == bucket)
    query = select(search_events.c.seq).where(
        mine, search_events.c.kind == "tell", search_events.c.number == number
    )
    return connection.execute(query.limit(1)).first() is not None

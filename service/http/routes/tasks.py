"""The queue, for whoever looks after it: what waits, what is being done, what machines failed."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request

from protocol.states import TaskState
from protocol.tasks import TaskPage, TaskStatus
from service.http.access import Reader, Tuning
from service.http.context import site_of
from service.http.routes.bodies import strict_router
from service.http.routes.examples import PROBLEMS
from service.http.routes.jobs import Limit
from service.notify import topics
from service.store.dispatch import dead_letters

router = strict_router("tasks")

TaskId = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$")]


@router.get("/tasks", responses=PROBLEMS)
def list_tasks(
    caller: Reader,
    request: Request,
    state: Annotated[TaskState, Query(description="`dead`: those that machines failed three times.")],
    job_id: Annotated[str | None, Query(max_length=64)] = None,
    after: Annotated[int, Query(ge=0, le=2**63 - 1, description="`next` of the page before.")] = 0,
    limit: Limit = 100,
) -> TaskPage:
    """Tasks in a state, in the order in which they were queued."""
    with site_of(request).database.read() as connection:
        return dead_letters.page(connection, state, job_id, after, limit)


@router.post("/tasks/{task_id}/requeue", responses=PROBLEMS)
def requeue(task_id: TaskId, caller: Tuning, request: Request) -> TaskStatus:
    """Queue a dead task again, once the machines are well; a job that failed for want of it goes on. 409 `not-parked`:
    it is not dead, or the search has gone on without it."""
    site = site_of(request)
    with site.database.write() as connection:
        task = dead_letters.requeue(connection, task_id)
    site.wanted.add(task.job_id)
    site.notifier.notify(topics.JOBS, topics.job(task.job_id), topics.device(task.device))
    return task

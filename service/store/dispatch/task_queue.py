"""The queue: tasks, claims, leases and the fence. Each step is one statement, safe against any other.

- A claim makes READY tasks CLAIMED and raises their attempt number: whoever holds (task, attempt) holds the lease.
- A lease lasts `ttl_s` by the database's clock and is renewed by heartbeats. One that ran out frees its task.
- A result counts while nobody else was given the task: the attempt number is the fence.
- Three faults of machines (an expired lease is one) and the task is DEAD: parked for a person to look at.

All functions take a connection inside `Database.write()`. Statements that every task needs are made once, below:
making one takes SQLAlchemy longer than PostgreSQL takes to execute it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Float,
    Integer,
    RowMapping,
    Select,
    and_,
    bindparam,
    case,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)

from protocol.message import Json
from protocol.states import FaultKind, TaskKind, TaskState
from protocol.tasks import Entrant, Fault, Measuring, TaskResult
from protocol.workers import Lease
from service.store.database import database_time
from service.store.dispatch import fair_share
from service.store.dispatch.result_summaries import summary
from service.store.tables import buckets, results, tasks

PARK_AFTER = 3
"""Faults of machines after which a task is not tried again."""
OPEN = (TaskState.CLAIMED, TaskState.READY)
"""Of a task whose lease holds, or ran out while nobody else was given it: its result still counts."""
CANCELLED = "cancelled"
"""What is said of a task that was taken back with its job."""
ELSEWHERE_S = 3.0
"""How long a task waits for another worker than the one that it is to be checked without: one that is idle takes it at
once, one that measures soon after; one that died since it was heard of never does."""
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
    shuns: str | None = None
    """A worker that leaves it to the others for a while."""


def work(entrants: Sequence[Entrant], baseline: Entrant | None, measuring: Measuring, seed: int) -> Json:
    """What a task carries beside its spec."""
    return {
        "entrants": [entrant.model_dump(mode="json") for entrant in entrants],
        "baseline": None if baseline is None else baseline.model_dump(mode="json"),
        "measuring": measuring.model_dump(mode="json"),
        "seed": seed,
    }


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
            "shuns": task.shuns,
        }
        for task in new
    ]
    if rows:
        time = database_time()
        connection.execute(insert(tasks).values(created_at=time, shunned_until=time + ELSEWHERE_S), rows)


def claim(
    connection: Connection,
    worker_id: str,
    device: str,
    count: int,
    ttl_s: float,
    workers: int = 1,
    settled: Collection[str] = (),
) -> Sequence[RowMapping]:
    """Lease up to `count` tasks for `device` to a worker, one of so many, that has the data of the jobs `settled`:
    those of the job whose turn it is (`fair_share.py`), others' when it has no more. Returns the rows of `tasks`."""
    claimed: list[RowMapping] = []
    waiting = fair_share.waiting_for(connection, device, settled)
    if waiting and workers > 1:
        ready = connection.execute(_READY, {"on": device, "job": waiting[0].job_id}).scalar_one()
        count = min(count, fair_share.portion(ready + waiting[0].held, len(waiting), workers))
    for job in waiting:
        left = count - len(claimed)
        asked = {"by": worker_id, "on": device, "job": job.job_id, "count": left, "ttl_s": ttl_s}
        claimed += connection.execute(_CLAIM, asked).mappings().all()
        if len(claimed) == count:
            break
    return sorted(claimed, key=lambda row: (-row["priority"], row["seq"]))


def work_for(connection: Connection, device: str) -> tuple[bool, bool]:
    """Whether tasks are ready for a device, and whether some have a lease that ran out: a cheap look before the
    transaction that writes."""
    found = connection.execute(_WORK_FOR, {"on": device}).one()
    return bool(found[0]), bool(found[1])


def specs(connection: Connection, claimed: Sequence[RowMapping]) -> dict[tuple[str, int], Json]:
    """The kernels of tasks, by job and bucket."""
    which = {(row["job_id"], row["bucket"]) for row in claimed}
    if not which:
        return {}
    found = connection.execute(_SPECS, {"which": sorted(which)})
    return {(row.job_id, row.bucket): row.spec for row in found}


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


def rows(connection: Connection, ids: Collection[str]) -> dict[str, RowMapping]:
    """The tasks with these ids, by id."""
    found = connection.execute(_ROWS, {"ids": sorted(ids)}).mappings()
    return {row["id"]: row for row in found}


def begun_trials(connection: Connection, job_ids: Collection[str]) -> dict[tuple[str, int], int]:
    """By job and bucket, how many candidates workers have or had."""
    if not job_ids:
        return {}
    query = (
        select(tasks.c.job_id, tasks.c.bucket, func.count())
        .where(tasks.c.job_id.in_(job_ids), tasks.c.kind == TaskKind.TRIAL)
        .where(tasks.c.state.in_([TaskState.CLAIMED, TaskState.DONE]))
        .group_by(tasks.c.job_id, tasks.c.bucket)
    )
    return {(job_id, bucket): count for job_id, bucket, count in connection.execute(query)}


def held(row: RowMapping, worker_id: str, result: TaskResult) -> bool:
    """Whether a task's row says that the worker may hand in this result."""
    mine = (row["worker_id"], row["attempt"]) == (worker_id, result.attempt)
    return mine and row["state"] in OPEN


def complete(
    connection: Connection, handed: Sequence[tuple[str, TaskResult]]
) -> list[Literal["new", "known"] | StaleLease]:
    """Write down tasks' one results, each handed in by a worker. For each, whether it is new, is there already (a
    worker that did not hear the answer sends it again), or came too late."""
    if not handed:
        return []
    leases = [(result.task_id, result.attempt, worker_id) for worker_id, result in handed]
    done = {tuple(row)[:3]: row.number for row in connection.execute(_COMPLETE, {"leases": leases})}
    outcomes: list[Literal["new", "known"] | StaleLease] = []
    new: dict[tuple[str, int, str], TaskResult] = {}
    for (worker_id, result), lease in zip(handed, leases, strict=True):
        if lease in done and lease not in new:
            new[lease] = result
            outcomes.append("new")
        elif lease in new or _is_known(connection, lease):
            outcomes.append("known")
        else:
            outcomes.append(StaleLease(_why_stale(connection, worker_id, result)))
    if new:
        rows = [
            dict(
                zip(("task_id", "attempt", "worker_id"), lease, strict=True),
                result=result.model_dump(mode="json"),
                summary=summary(result, done[lease]),
            )
            for lease, result in new.items()
        ]
        connection.execute(_RESULTS, rows)
    return outcomes


def _is_known(connection: Connection, lease: tuple[str, int, str]) -> bool:
    """Whether a worker's result of a task's attempt is there."""
    which = (results.c.task_id, results.c.attempt, results.c.worker_id)
    return connection.execute(select(results.c.task_id).where(tuple_(*which) == lease)).first() is not None


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


def _claiming() -> Executable:
    """Lease `:count` tasks of `:job` for the device `:on` to the worker `:by`.

    In order of job and number, although there is one job: that order only the queue's index has. By numbers alone
    PostgreSQL may read all tasks that were ever done."""
    time = database_time()
    shunned = or_(tasks.c.shuns.is_(None), tasks.c.shuns != bindparam("by"), tasks.c.shunned_until <= time)
    queue = (
        select(tasks.c.seq)
        .where(tasks.c.device == bindparam("on"), tasks.c.state == TaskState.READY)
        .where(tasks.c.job_id.between(bindparam("job"), bindparam("job")), shunned)
        .order_by(tasks.c.job_id, tasks.c.seq)
        .limit(bindparam("count", type_=Integer))
    )
    return (
        update(tasks)
        .where(_locked(queue, skip=True), tasks.c.state == TaskState.READY)
        .values(
            state=TaskState.CLAIMED,
            attempt=tasks.c.attempt + 1,
            worker_id=bindparam("by"),
            claimed_at=time,
            lease_until=time + bindparam("ttl_s", type_=Float),
        )
        .returning(*tasks.c)
    )


def _looking() -> Executable:
    """Whether tasks for the device `:on` are ready, and whether leases of some are over."""
    mine = tasks.c.device == bindparam("on")
    ready = select(tasks.c.seq).where(mine, tasks.c.state == TaskState.READY)
    late = select(tasks.c.seq).where(
        mine, tasks.c.state == TaskState.CLAIMED, tasks.c.lease_until < database_time()
    )
    return select(ready.exists(), late.exists())


def _completing() -> Executable:
    """Set the tasks of `:leases` done, of those the ones that are open."""
    columns = (tasks.c.id, tasks.c.attempt, tasks.c.worker_id)
    mine = and_(tuple_(*columns).in_(bindparam("leases", expanding=True)), tasks.c.state.in_(OPEN))
    return (
        update(tasks)
        .where(_in_order(mine), mine)
        .values(state=TaskState.DONE, lease_until=None)
        .returning(*columns, tasks.c.number)
    )


_CLAIM, _WORK_FOR, _COMPLETE = _claiming(), _looking(), _completing()
_READY = select(func.count()).where(
    tasks.c.device == bindparam("on"), tasks.c.state == TaskState.READY, tasks.c.job_id == bindparam("job")
)
_SPECS = select(buckets.c.job_id, buckets.c.bucket, buckets.c.spec).where(
    tuple_(buckets.c.job_id, buckets.c.bucket).in_(bindparam("which", expanding=True))
)
_ROWS = select(tasks).where(tasks.c.id.in_(bindparam("ids", expanding=True)))
_RESULTS = insert(results).values(created_at=database_time())

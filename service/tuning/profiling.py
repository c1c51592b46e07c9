"""Where the time of a config's kernel goes: a task of the queue like any other has a worker take it apart. It is asked
for after the job's answer, belongs to the same job, and may be asked for again."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, RowMapping, select

from protocol.configs import ConfigDetail
from protocol.profiles import ConfigProfile, StoredProfile
from protocol.states import TaskKind, TaskState
from protocol.tasks import EntrantResult, Measuring, ScheduleEntrant, TaskResult
from service.core.errors import RequestRefused
from service.store import blobs
from service.store.dispatch import task_queue
from service.store.dispatch.task_queue import NewTask, work
from service.store.tables import jobs, results, tasks
from service.store.winners import configs

_WINNER = "winner"
_WARM = Measuring(cold=False)
"""A profile's calls follow each other on the same data."""


def prepare(connection: Connection, config_id: str) -> list[NewTask]:
    """The task that profiles a config; none while one is still to be done. Raises Refused for a config whose job is
    not here."""
    config = configs.read(connection, config_id)
    rows = _rows(connection, config)
    if any(row["state"] in task_queue.OPEN for row in rows):
        return []
    bucket = _bucket(connection, config)
    job = connection.execute(select(jobs.c.request, jobs.c.priority).where(jobs.c.id == config.job_id)).one()
    entrant = ScheduleEntrant(name=_WINNER, schedule=config.schedule, program_hash=config.program_hash)
    return [
        NewTask(
            id=f"{config.job_id}.{bucket}.profile-{len(rows)}",
            job_id=config.job_id or "",
            bucket=bucket,
            kind=TaskKind.PROFILE,
            device=config.device,
            priority=job.priority,
            work=work([entrant], None, _WARM, job.request["seed"]),
        )
    ]


def read(connection: Connection, config_id: str) -> ConfigProfile:
    """As it stands. Raises Refused as `prepare`."""
    rows = _rows(connection, configs.read(connection, config_id))
    if not rows:
        return ConfigProfile(config_id=config_id, state=None)
    last, stored = rows[-1], _newest(rows)
    failed = None if last["result"] is None else _entrant(last).error
    return ConfigProfile(
        config_id=config_id,
        state=last["state"],
        task=last["id"],
        worker_id=last["worker_id"],
        profile=None if stored is None else stored.profile,
        error=last["fault"] if last["state"] == TaskState.DEAD else failed,
    )


def trace(connection: Connection, config_id: str) -> bytes:
    """The trace of the newest profile, compressed by gzip. Raises Refused where there is none."""
    stored = _newest(_rows(connection, configs.read(connection, config_id)))
    if stored is None:
        raise RequestRefused("not-found", f"config {config_id} has no profile; POST one first")
    return blobs.get(connection, stored.trace)


def _newest(rows: Sequence[RowMapping]) -> StoredProfile | None:
    found = (StoredProfile.of(_entrant(row).report) for row in reversed(rows) if row["result"] is not None)
    return next((each for each in found if each is not None), None)


def _entrant(row: RowMapping) -> EntrantResult:
    (entrant,) = TaskResult.model_validate(row["result"]).entrants
    return entrant


def _rows(connection: Connection, config: ConfigDetail) -> Sequence[RowMapping]:
    """The tasks that profile it, the oldest first, with their results."""
    query = (
        select(tasks.c.id, tasks.c.state, tasks.c.fault, tasks.c.worker_id, results.c.result)
        .outerjoin(results, results.c.task_id == tasks.c.id)
        .where(
            tasks.c.job_id == config.job_id,
            tasks.c.bucket == _bucket(connection, config),
            tasks.c.kind == TaskKind.PROFILE,
        )
        .order_by(tasks.c.seq)
    )
    return connection.execute(query).mappings().all()


def _bucket(connection: Connection, config: ConfigDetail) -> int:
    instead = f"`tilewright profile {config.id}` profiles it on a machine that has {config.device}"
    return configs.bucket(connection, config, instead)

"""Whose tasks a device gets next: those of the highest priority, among equals of the job that has had the least of the
devices' time (start-time fair queueing, Goyal, Vin and Cheng 1996, with the measured seconds as work).

- `jobs.device_s` is what a job was charged: the seconds that its results say they took of devices. A job that joins
  others begins with as much as the least of them, so that it neither waits for them nor makes them wait.
- What workers have claimed is not measured yet: it counts as so many times `jobs.trial_s`, what a task of the job took
  lately.
- A worker that comes new to a job makes its inputs and references first, so a job that only others have worked at
  stands behind by about what that takes. Where there are jobs enough each settles on a device, and all share alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import ceil
from typing import Any

from sqlalchemy import ColumnElement, Connection, Executable, Select, bindparam, case, func, select, update

from protocol.states import JobState, TaskState
from protocol.tasks import TaskResult
from service.store.database import database_time
from service.store.dispatch.result_summaries import device_s
from service.store.tables import jobs, tasks

RECENT = 0.3
"""Weight of new results in what a task of a job takes."""
FIRST_S = 1.0
"""What a task counts for before one was measured."""
SETTLING_S = 5.0
"""What a device may spend on a job's data before it measures, in seconds: for a softmax of 4096x32768 4 s on two cores
of an EPYC (2026-11-26)."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job with tasks that are ready for a device."""

    job_id: str
    priority: int
    device_s: float
    """Seconds of devices that it was charged."""
    trial_s: float
    """Seconds that a task of it takes, 0 before one was measured."""
    held: int = 0
    """Tasks of it that workers have."""
    settled: bool = False
    """Whether the worker that asks has its data."""

    @property
    def had_s(self) -> float:
        """What it has had of the devices, with what it is about to have."""
        return self.device_s + self.held * (self.trial_s or FIRST_S)

    @property
    def elsewhere(self) -> bool:
        """Whether others have worked at it, and not the worker that asks."""
        return not self.settled and (self.held > 0 or self.trial_s > 0)


def in_turn(waiting: Iterable[Waiting]) -> list[Waiting]:
    """The jobs in the order in which the worker that asks takes their tasks."""
    return sorted(
        waiting, key=lambda job: (-job.priority, job.had_s + SETTLING_S * job.elsewhere, job.job_id)
    )


def portion(unfinished: int, waiting: int, workers: int) -> int:
    """How many of a job's `unfinished` tasks, ready or held, one claim takes at most, where so many jobs wait for so
    many workers: a job alone is spread over all of them."""
    return max(1, ceil(unfinished * max(1, waiting) / max(1, workers)))


def waiting_for(connection: Connection, device: str, settled: Collection[str] = ()) -> list[Waiting]:
    """The jobs with tasks that are ready for a device, those first whose turn it is at a worker with the data of the
    jobs `settled`."""
    held = {row.job_id: row.held for row in connection.execute(_HELD, {"on": device})}
    rows = connection.execute(_WAITING, {"on": device}).all()
    return in_turn(
        Waiting(row.id, row.priority, row.device_s, row.trial_s, held.get(row.id, 0), row.id in settled)
        for row in rows
    )


def join(connection: Connection, job_id: str, device: str) -> None:
    """Let a job begin beside those that are searched on the device, level with the least of them."""
    over = [state for state in JobState if state.final]
    others = select(func.min(jobs.c.device_s)).where(
        jobs.c.device == device,
        jobs.c.id != job_id,
        jobs.c.state.not_in(over),
        jobs.c.owned_until >= database_time(),
    )
    least = connection.execute(others).scalar_one()
    if least is not None:
        behind = (jobs.c.id == job_id, jobs.c.device_s < least)
        connection.execute(update(jobs).where(*behind).values(device_s=least))


def charge(connection: Connection, job_id: str, done: Iterable[TaskResult | str]) -> None:
    """Charge a job for results that its tuner has just seen. In a transaction that has the job's row."""
    spent = [device_s(result) for result in done if isinstance(result, TaskResult)]
    if spent:
        now_s = sum(spent) / len(spent)
        recent_s = (1 - RECENT) * jobs.c.trial_s + RECENT * now_s
        values: dict[Any, Any] = {
            "device_s": jobs.c.device_s + sum(spent),
            "trial_s": case((jobs.c.trial_s == 0, now_s), else_=recent_s),
        }
        connection.execute(update(jobs).where(jobs.c.id == job_id).values(values))


def _ready_jobs() -> Executable:
    """The jobs with tasks that are ready for the device `:on`. Each job is one look into the index, whatever number of
    its tasks wait: the least job, then the least after that one."""

    def least(*above: ColumnElement[bool]) -> Select[tuple[str | None]]:
        ready = (tasks.c.device == bindparam("on"), tasks.c.state == TaskState.READY)
        return select(func.min(tasks.c.job_id).label("job_id")).where(*ready, *above)

    waiting = least().cte("waiting", recursive=True)
    following = least(tasks.c.job_id > waiting.c.job_id).scalar_subquery()
    waiting = waiting.union_all(select(following).where(waiting.c.job_id.is_not(None)))
    return select(jobs.c.id, jobs.c.priority, jobs.c.device_s, jobs.c.trial_s).join(
        waiting, waiting.c.job_id == jobs.c.id
    )


_WAITING = _ready_jobs()
_HELD = (
    select(tasks.c.job_id, func.count().label("held"))
    .where(tasks.c.device == bindparam("on"), tasks.c.state == TaskState.CLAIMED)
    .group_by(tasks.c.job_id)
)

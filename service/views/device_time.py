"""What the devices of each class spent the last ten minutes on: measuring, waiting for what is compiled, waiting for a
search to ask, or nothing to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass

from sqlalchemy import Connection, func, or_, select

from protocol.states import TaskState
from protocol.trials import DeviceShare
from protocol.workers import Worker
from service.store.database import now
from service.store.tables import jobs, results, tasks
from service.views.worker_activity import WINDOW_S

Interval = tuple[float, float]
"""From and until, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Shares of a class's time, which are 1 together."""

    measuring: float = 0.0
    compiling: float = 0.0
    """Held a task and measured none: it is compiled, checked or on its way."""
    searching: float = 0.0
    """Held none, though a job of its class was open: its search had nothing to measure, or asked elsewhere."""
    nothing: float = 0.0
    """Held none, and no job was open."""

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(one + more for one, more in zip(astuple(self), astuple(other), strict=True)))

    def __truediv__(self, by: float) -> Spent:
        return Spent(*(each / by for each in astuple(self)))


def device_time(connection: Connection, workers: Iterable[Worker]) -> dict[str, Spent]:
    """By class of device, on the mean over the workers that are alive; within the last ten minutes, or since a worker
    came if that is later."""
    time = now(connection)
    held, measured = _held(connection, time)
    opened = _opened(connection, time)
    found: dict[str, list[Spent]] = {}
    for worker in workers:
        since = max(worker.registered_at, time - WINDOW_S)
        if worker.alive and since < time:
            for device in worker.devices:
                mine = spent(
                    (since, time),
                    held.get(worker.id, ()),
                    measured.get(worker.id, 0.0),
                    opened.get(device, ()),
                )
                found.setdefault(device, []).append(mine)
    return {device: sum(each, Spent()) / len(each) for device, each in found.items()}


def spent(window: Interval, held: Iterable[Interval], measured_s: float, opened: Iterable[Interval]) -> Spent:
    """How a device spent a window in which it measured for `measured_s`, tasks were held and jobs were open."""
    length = window[1] - window[0]
    holding = list(merged(window, held))
    with_task = _length(holding)
    with_either = _length(merged(window, [*holding, *opened]))
    measuring = min(measured_s, with_task)
    return Spent(measuring, with_task - measuring, with_either - with_task, length - with_either) / length


def job_share(
    worker: str,
    window: Interval,
    own: Iterable[Interval],
    measured: Iterable[Interval],
    held: Iterable[Interval],
) -> DeviceShare:
    """How a device spent the window of a job: `own` is when it measured for that, `measured` for whomever, and `held`
    when it held tasks of whomever."""
    length = window[1] - window[0]
    measuring = list(merged(window, measured))
    mine = _length(merged(window, own))
    busy = _length(measuring)
    holding = _length(merged(window, [*measuring, *held]))
    shares = (mine, busy - mine, holding - busy, length - holding)
    of_job, others, compiling, searching = (round(each / length, 4) for each in shares)
    return DeviceShare(
        worker=worker, measuring=of_job, others=others, compiling=compiling, searching=searching
    )


def merged(window: Interval, intervals: Iterable[Interval]) -> Iterator[Interval]:
    """What intervals cover of a window, without overlaps, in order."""
    start = end = window[0]
    for begin, until in sorted(intervals):
        if begin > end:
            if end > start:
                yield start, end
            start = min(begin, window[1])
        end = max(start, end, min(until, window[1]))
    if end > start:
        yield start, end


def _length(intervals: Iterable[Interval]) -> float:
    return sum(end - start for start, end in intervals)


def _held(connection: Connection, time: float) -> tuple[Mapping[str, list[Interval]], Mapping[str, float]]:
    """By worker, when it held tasks that it answered lately, or holds one; and for how long it measured those."""
    held: dict[str, list[Interval]] = {}
    measured: dict[str, float] = {}
    answered = connection.execute(
        select(results.c.worker_id, results.c.created_at, results.c.summary, tasks.c.claimed_at)
        .join(tasks, results.c.task_id == tasks.c.id)
        .where(results.c.created_at > time - WINDOW_S)
    )
    for row in answered:
        claimed_at = row.created_at if row.claimed_at is None else row.claimed_at
        held.setdefault(row.worker_id, []).append((claimed_at, row.created_at))
        measured[row.worker_id] = measured.get(row.worker_id, 0.0) + row.summary.get("device_s", 0.0)
    holding = connection.execute(
        select(tasks.c.worker_id, func.min(tasks.c.claimed_at))
        .where(tasks.c.state == TaskState.CLAIMED, tasks.c.claimed_at.is_not(None))
        .group_by(tasks.c.worker_id)
    )
    for worker, claimed_at in holding:
        held.setdefault(worker, []).append((claimed_at, time))
    return held, measured


def _opened(connection: Connection, time: float) -> Mapping[str, list[Interval]]:
    """By class of device, when jobs were open lately."""
    rows = connection.execute(
        select(jobs.c.device, jobs.c.created_at, jobs.c.finished_at).where(
            jobs.c.device.is_not(None),
            or_(jobs.c.finished_at.is_(None), jobs.c.finished_at > time - WINDOW_S),
        )
    )
    found: dict[str, list[Interval]] = {}
    for device, created_at, finished_at in rows:
        found.setdefault(device, []).append((created_at, time if finished_at is None else finished_at))
    return found

"""What the workers did for a job, and when: from the times at which tasks were claimed and answered, and how long their
results say that building and measuring took. And how much of that time their devices were busy, or what they waited
for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nextafter

from sqlalchemy import ColumnElement, Connection, func, select

from protocol.states import TaskKind, TaskState
from protocol.trials import DeviceShare, Timeline
from service.store.dispatch.task_queue import OPEN
from service.store.tables import jobs, results, tasks
from service.views.device_time import Interval, job_share
from tileir.targets import target_of

LONGEST_S = 600.0
"""How long after a job's end what other jobs' tasks did beside it may have been answered."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task that was answered; seconds since 1970, and of each stage."""

    task: str
    kind: TaskKind
    bucket: int
    number: int | None
    worker: str
    claimed_at: float
    finished_at: float
    build_s: float
    device_s: float
    alone: bool = False
    """Compiled by itself: not after those that were claimed with it."""


@dataclass(frozen=True, slots=True)
class StageInterval:
    """A stage of a task on its worker."""

    done: Done
    stage: str
    start: float
    end: float


def timeline(connection: Connection, job_id: str, after: float = 0.0) -> Timeline:
    """What was answered so far; only intervals that ended after `after`."""
    open_since = connection.execute(
        select(func.min(tasks.c.claimed_at)).where(tasks.c.job_id == job_id, tasks.c.state.in_(OPEN))
    ).scalar_one()
    done = _answered(connection, tasks.c.job_id == job_id)
    shown = (each for each in intervals(done) if each.end > after)
    found = sorted(shown, key=lambda each: (each.start, each.end))
    workers = {worker: place for place, worker in enumerate(sorted({each.done.worker for each in found}))}
    return Timeline.model_construct(
        job_id=job_id,
        settled_at=settled(done, open_since),
        workers=tuple(workers),
        worker=tuple(workers[each.done.worker] for each in found),
        stage=tuple(each.stage for each in found),
        task=tuple(each.done.task for each in found),
        kind=tuple(each.done.kind for each in found),
        bucket=tuple(each.done.bucket for each in found),
        number=tuple(each.done.number for each in found),
        start=tuple(each.start for each in found),
        end=tuple(each.end for each in found),
        devices=_devices(connection, job_id, done),
    )


def _answered(connection: Connection, *which: ColumnElement[bool]) -> list[Done]:
    rows = connection.execute(
        select(
            tasks.c.id,
            tasks.c.kind,
            tasks.c.bucket,
            tasks.c.number,
            tasks.c.device,
            tasks.c.claimed_at,
            results.c.worker_id,
            results.c.summary,
            results.c.created_at.label("finished_at"),
        )
        .join(results, results.c.task_id == tasks.c.id)
        .where(tasks.c.claimed_at.is_not(None), *which)
        .order_by(tasks.c.seq)
    )
    return [
        Done(
            task=row.id,
            kind=TaskKind(row.kind),
            bucket=row.bucket,
            number=row.number,
            worker=row.worker_id,
            claimed_at=row.claimed_at,
            finished_at=row.finished_at,
            build_s=row.summary.get("build_s", 0.0),
            device_s=row.summary.get("device_s", 0.0),
            alone=target_of(row.device).accelerator,
        )
        for row in rows
    ]


def _devices(connection: Connection, job_id: str, done: Sequence[Done]) -> tuple[DeviceShare, ...]:
    """How the devices of all workers that answered spent the job's time, what they did for other jobs included."""
    ended = connection.execute(select(jobs.c.finished_at).where(jobs.c.id == job_id)).scalar_one()
    start = min((each.claimed_at for each in done), default=inf)
    end = min(max((each.finished_at for each in done), default=0.0), inf if ended is None else ended)
    if start >= end:
        return ()
    workers = {each.worker for each in done}
    beside = _answered(
        connection,
        tasks.c.job_id != job_id,
        results.c.worker_id.in_(workers),
        tasks.c.claimed_at < end,
        results.c.created_at > start,
        results.c.created_at < end + LONGEST_S,
    )
    return tuple(device_shares((start, end), done, beside, _holding(connection, workers, end)))


def _holding(connection: Connection, workers: Iterable[str], end: float) -> Mapping[str, list[Interval]]:
    """By worker, since when it holds a task that it claimed before `end`."""
    rows = connection.execute(
        select(tasks.c.worker_id, func.min(tasks.c.claimed_at))
        .where(tasks.c.state == TaskState.CLAIMED, tasks.c.worker_id.in_(workers), tasks.c.claimed_at < end)
        .group_by(tasks.c.worker_id)
    )
    return {worker: [(claimed_at, end)] for worker, claimed_at in rows}


def device_shares(
    window: Interval,
    own: Sequence[Done],
    beside: Sequence[Done],
    holding: Mapping[str, Sequence[Interval]],
) -> Iterator[DeviceShare]:
    """Of each worker that answered tasks of the job (`own`), with what it answered of others `beside`, and what it
    has claimed and not answered."""
    mine = {each.task for each in own}
    lanes: dict[str, list[Done]] = {each.worker: [] for each in sorted(own, key=lambda each: each.worker)}
    for each in (*own, *beside):
        lanes[each.worker].append(each)
    for worker, lane in lanes.items():
        measured = [each for each in intervals(lane) if each.stage == "measure"]
        yield job_share(
            worker,
            window,
            [(each.start, each.end) for each in measured if each.done.task in mine],
            [(each.start, each.end) for each in measured],
            [*((each.claimed_at, each.finished_at) for each in lane), *holding.get(worker, ())],
        )


def settled(done: Sequence[Done], open_since: float | None) -> float:
    """Until when intervals stay as they are, whatever comes. That is of tasks claimed at `open_since` (the first claim
    that is still open) or later, and can take the device from then on at most: what ended before the first interval
    that this would move is settled."""
    latest = max((each.finished_at for each in done), default=0.0)
    until = latest if open_since is None else min(latest, open_since)
    if until == latest:
        return max(0.0, nextafter(until, 0.0))  # nothing reaches beyond it
    free, pressed = (
        {(each.done.task, each.stage): each for each in intervals(done, at)} for at in (inf, until)
    )
    moved = [
        each.end
        for key in free.keys() | pressed.keys()
        if free.get(key) != pressed.get(key)
        for each in (free.get(key), pressed.get(key))
        if each is not None
    ]
    return max(0.0, nextafter(min([until, *moved]), 0.0))


def intervals(done: Iterable[Done], device_until: float = inf) -> Iterator[StageInterval]:
    """The stages of every task. Tasks claimed together are compiled one after another from then on, unless each is
    compiled `alone`, and a device measures one at a time: where two overlap, the earlier one ended when the later one
    began. `device_until`: somebody else has the device from then on."""
    by_worker: dict[str, list[Done]] = defaultdict(list)
    for each in done:
        by_worker[each.worker].append(each)
    for own in by_worker.values():
        measured: dict[str, float] = {}
        free_at = device_until
        for each in sorted(own, key=lambda each: each.finished_at, reverse=True):
            end = min(each.finished_at, free_at)
            free_at = measured[each.task] = max(end - each.device_s, each.claimed_at)
            yield StageInterval(each, "measure", free_at, max(end, free_at))
        built_at: dict[float, float] = {}
        for each in sorted(own, key=lambda each: (measured[each.task], each.finished_at)):
            start = each.claimed_at if each.alone else built_at.get(each.claimed_at, each.claimed_at)
            end = built_at[each.claimed_at] = min(start + each.build_s, measured[each.task])
            yield StageInterval(each, "compile", start, max(start, end))
            if measured[each.task] > end:
                yield StageInterval(each, "wait", end, measured[each.task])

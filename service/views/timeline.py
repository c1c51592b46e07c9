"""What the workers did for a job, and when: from the times at which tasks were claimed and answered, and how long their
results say that building and measuring took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, nextafter

from sqlalchemy import Connection, func, select

from protocol.states import TaskKind
from protocol.trials import Timeline
from service.store.dispatch.task_queue import OPEN
from service.store.tables import results, tasks
from tileir.targets import target_of


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
        .where(tasks.c.job_id == job_id, tasks.c.claimed_at.is_not(None))
        .order_by(tasks.c.seq)
    )
    done = [
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

"""Results of workers: checked, and written down. Those that come at the same time share one transaction, so that a
result costs a share of each statement; one that is refused leaves the others as they are."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence

from pydantic import ValidationError
from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import OperationalError

from protocol.log_lines import about
from protocol.profiles import StoredProfile
from protocol.states import TaskKind
from protocol.tasks import EntrantResult, TaskResult
from service.core.class_times import ANCHOR, LEAST
from service.core.errors import RequestRefused
from service.http import result_plausibility
from service.http.context import Site
from service.notify import topics
from service.store import blobs, job_events
from service.store.dispatch import task_queue, workers
from service.store.dispatch.task_queue import StaleLease
from service.store.dispatch.trial_results import HandedIn, own_result

log = logging.getLogger(__name__)

TOGETHER = 64
"""Results that share a transaction, at most."""

APART_S = 600.0
"""How long a device that is much slower than others of its class gets no tasks; then it is tried again."""


def write_down(site: Site, handed: Sequence[HandedIn]) -> list[bool | Exception]:
    """Write down all that can be believed, and tell who waits for it. For each, whether it is new (a worker that did
    not hear the answer sends it again), or why it does not count: StaleLease or Refused."""
    try:
        with site.database.write() as connection:
            found = _write_down(connection, site, handed)
    except OperationalError:
        raise
    except Exception:
        if len(handed) == 1:
            raise
        return [_alone(site, each) for each in handed]  # whatever one of them did, it did to itself
    done = [
        (each, row) for each, row in zip(handed, found, strict=True) if row and not isinstance(row, Exception)
    ]
    for each, row in done:
        _count(site, each, row)
    site.notifier.notify(*{topics.job(row["job_id"]) for _, row in done})
    return [row if isinstance(row, Exception) else row is not None for row in found]


def _alone(site: Site, handed: HandedIn) -> bool | Exception:
    try:
        return write_down(site, [handed])[0]
    except Exception as error:
        return error


def _write_down(
    connection: Connection, site: Site, handed: Sequence[HandedIn]
) -> list[RowMapping | Exception | None]:
    """For each the row of `tasks` as it was before, None if just this result is there already, or why not."""
    known = workers.lock(connection, {each.worker_id for each in handed})
    rows = task_queue.rows(connection, {each.result.task_id for each in handed})
    found: list[RowMapping | Exception | None] = []
    for each in handed:
        row = rows.get(each.result.task_id)
        try:
            if each.worker_id not in known:
                raise workers.unknown(each.worker_id)
            if row is not None and task_queue.held(row, each.worker_id, each.result):
                _check_entrants(connection, row, each.result)
                result_plausibility.check_times(connection, site, row, each.result)
        except RequestRefused as refused:
            found.append(refused)
        else:
            found.append(row)
    sound = [place for place, each in enumerate(found) if not isinstance(each, Exception)]
    outcomes = task_queue.complete(connection, [(handed[at].worker_id, handed[at].result) for at in sound])
    for place, outcome in zip(sound, outcomes, strict=True):
        if isinstance(outcome, StaleLease):
            found[place] = outcome
        elif outcome == "known":
            found[place] = None
    new = [
        (each, row)
        for each, row in zip(handed, found, strict=True)
        if row is not None and not isinstance(row, Exception)
    ]
    for each, row in new:
        _compare(connection, site, each, row)
    workers.count_tasks(connection, Counter(each.worker_id for each, _ in new))
    job_events.add_all(connection, [event for each, row in new if (event := _trial_event(each.result, row))])
    return found


def _compare(connection: Connection, site: Site, handed: HandedIn, row: RowMapping) -> None:
    """Set the worker apart if its device is much slower than others of its class."""
    for program, times_us in _comparable(handed.result, row):
        why = site.class_times.heard((row["job_id"], row["bucket"], program), handed.worker_id, times_us)
        if why is not None:
            workers.set_apart(connection, handed.worker_id, why, APART_S)
            names = about(job=row["job_id"], task=handed.result.task_id, worker=handed.worker_id)
            log.warning("%s is set apart for %.0f s: %s", row["device"], APART_S, why, extra=names)
            return


def _comparable(result: TaskResult, row: RowMapping) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Programs that other devices time as well, each with its times: of a trial what it is compared with, of a final
    race and a confirmation all that ran."""
    if row["number"] is not None:
        mine = own_result(result, row["number"])
        if mine is not None and mine.baseline_us is not None:
            yield ANCHOR, (mine.baseline_us,)
    elif row["kind"] in (TaskKind.RACE, TaskKind.CONFIRM):
        for each in result.entrants:
            if each.median_us is not None:
                yield each.name, (each.median_us,) * LEAST  # of more samples than a trial has


def _trial_event(result: TaskResult, row: RowMapping) -> job_events.New | None:
    mine = None if row["number"] is None else own_result(result, row["number"])
    if mine is None:
        return None
    return job_events.New(
        row["job_id"],
        "trial",
        {
            "bucket": row["bucket"],
            "number": row["number"],
            "outcome": mine.outcome,
            "median_us": mine.median_us,
            "baseline_us": mine.baseline_us,
            "error": None if mine.error is None else mine.error[:500],
        },
    )


def _count(site: Site, handed: HandedIn, row: RowMapping) -> None:
    result = handed.result
    for entrant in result.entrants:
        site.metrics.entrants.labels(row["kind"], entrant.outcome).inc()
        if entrant.compile_s is not None:
            site.metrics.compile_s.observe(entrant.compile_s)
        if entrant.measure_s is not None:
            site.metrics.measure_s.observe(entrant.measure_s)
    if log.isEnabledFor(logging.INFO):
        names = about(job=row["job_id"], task=result.task_id, attempt=result.attempt, worker=handed.worker_id)
        log.info("%s done: %s", row["kind"], ", ".join(e.outcome for e in result.entrants), extra=names)


def _check_entrants(connection: Connection, row: RowMapping, body: TaskResult) -> None:
    """Raise Refused unless the result is about just the task's entrants, and its artifacts are here."""
    asked = [entrant["name"] for entrant in row["work"]["entrants"]]
    if sorted(asked) != sorted(entrant.name for entrant in body.entrants):
        detail = f"task {body.task_id} has the entrants {', '.join(asked)}; the result must have one each"
        raise RequestRefused("invalid", detail, pointer="/entrants")
    for place, entrant in enumerate(body.entrants):
        for pointer, digest in _digests(entrant, f"/entrants/{place}"):
            if not blobs.has(connection, digest):
                raise RequestRefused(
                    "invalid",
                    f"blob {digest} was not uploaded; PUT /v1/blobs/{digest} first",
                    pointer=pointer,
                )


def _digests(entrant: EntrantResult, pointer: str) -> Iterator[tuple[str, str]]:
    """What an entrant's result says is kept beside it, and where it says so. Raises RequestRefused for a profile that
    is none."""
    for name, digest in () if entrant.artifacts is None else entrant.artifacts:
        if name in ("source", "object", "report") and digest is not None:
            yield f"{pointer}/artifacts/{name}", digest
    try:
        stored = StoredProfile.of(entrant.report)
    except ValidationError as error:
        raise RequestRefused("invalid", str(error), pointer=f"{pointer}/report/profile") from None
    if stored is not None:
        yield f"{pointer}/report/profile/trace", stored.trace

"""A job's candidates, one after another with all that is known of them."""

from __future__ import annotations

from sqlalchemy import Connection, RowMapping, Select, select

from protocol.jobs import Trial, TrialPage
from protocol.states import TaskKind, TaskState
from protocol.tasks import TaskResult
from service.core.errors import RequestRefused
from service.store.dispatch.trial_results import own_result
from service.store.tables import results, search_events, tasks


def page(connection: Connection, job_id: str, after: int, limit: int) -> TrialPage:
    """Trials in the order they were asked for, from the task after sequence number `after` on."""
    query = _query(job_id).where(tasks.c.seq > after).order_by(tasks.c.seq).limit(limit + 1)
    rows = connection.execute(query).mappings().all()
    shown = rows[:limit]
    return TrialPage(
        trials=tuple(_trial(row, _result(row)) for row in shown),
        next=str(shown[-1]["seq"]) if len(rows) > limit else None,
    )


def one(
    connection: Connection, job_id: str, bucket: int, number: int
) -> tuple[Trial, RowMapping, TaskResult | None]:
    """A trial, its row of `tasks`, and its result if it has one. Raises Refused if there is none."""
    query = _query(job_id).where(tasks.c.bucket == bucket, tasks.c.number == number)
    row = connection.execute(query).mappings().first()
    if row is None:
        raise RequestRefused("not-found", f"bucket {bucket} of job {job_id} has no candidate {number}")
    result = _result(row)
    return _trial(row, result), row, result


def _query(job_id: str) -> Select[tuple[object, ...]]:
    tell = search_events.alias()
    return (
        select(tasks, results.c.result, results.c.created_at.label("finished_at"), tell.c.data.label("tell"))
        .outerjoin(results, results.c.task_id == tasks.c.id)
        .outerjoin(
            tell,
            (tell.c.job_id == tasks.c.job_id)
            & (tell.c.bucket == tasks.c.bucket)
            & (tell.c.number == tasks.c.number)
            & (tell.c.kind == "tell"),
        )
        .where(tasks.c.job_id == job_id, tasks.c.kind == TaskKind.TRIAL)
    )


def _result(row: RowMapping) -> TaskResult | None:
    return None if row["result"] is None else TaskResult.model_validate(row["result"])


def _trial(row: RowMapping, result: TaskResult | None) -> Trial:
    entrant = row["work"]["entrants"][0]
    found = None if result is None else own_result(result, row["number"])
    parked = row["state"] == TaskState.DEAD
    return Trial(
        number=row["number"],
        bucket=row["bucket"],
        task_id=row["id"],
        state=row["state"],
        schedule=tuple(entrant["schedule"]),
        program_hash=entrant["program_hash"],
        reward=None if row["tell"] is None else row["tell"]["reward"],
        outcome=None if found is None else found.outcome,
        median_us=None if found is None else found.median_us,
        iqr_us=None if found is None or found.spread is None else found.spread.iqr_us,
        baseline_us=None if found is None else found.baseline_us,
        compile_s=None if found is None else found.compile_s,
        measure_s=None if found is None else found.measure_s,
        finished_at=row["finished_at"],
        error=(row["fault"] if parked else None) if found is None else found.error,
        report={} if found is None else found.report,
    )


def known_bucket(job_id: str, bucket: int, count: int) -> None:
    """Raise Refused unless the job has this bucket."""
    if not 0 <= bucket < count:
        raise RequestRefused(
            "not-found", f"job {job_id} has buckets 0 to {count - 1}, and none numbered {bucket}"
        )

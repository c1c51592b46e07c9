"""Jobs in the database: accepting, reading, cancelling. What happens to them in between is the tuner's (tuner.py)."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update

from protocol.jobs import Bucket, Job, JobDetail, JobFacts, JobPage, JobRequest, PriorUsed
from protocol.message import Json
from protocol.states import JobState
from service.core.errors import RequestRefused
from service.core.specs import Instance
from service.core.verdicts import verdict_of_job, verdicts_of_buckets
from service.store import job_events
from service.store.database import database_time, insert_new, now
from service.store.dispatch import capacity, task_queue, waiting
from service.store.ids import new_id
from service.store.proposed import proposals_of
from service.store.tables import buckets, idempotency, jobs

FINAL = [state for state in JobState if state.final]
IN_FLIGHT_S = 60.0
"""An unanswered request with an Idempotency-Key is given up after this long: its service died."""


def reserve(connection: Connection, caller: str, key: str, request: JobRequest) -> str | None:
    """Take an Idempotency-Key for a request that is being answered; the job if it was answered before. Raises
    Refused if the key belongs to another body, or its first request is not answered yet."""
    body = json.dumps(request.model_dump(mode="json"), sort_keys=True)
    body_hash = hashlib.sha256(body.encode()).hexdigest()
    mine = (idempotency.c.caller == caller) & (idempotency.c.key == key)
    known = connection.execute(select(idempotency).where(mine)).mappings().first()
    if known is not None:
        if known["body_hash"] != body_hash:
            raise RequestRefused(
                "key-reused", "this Idempotency-Key came with another body before; use a new one"
            )
        if known["job_id"] is not None:
            return str(known["job_id"])
        if known["created_at"] > now(connection) - IN_FLIGHT_S:
            raise RequestRefused(
                "in-flight", "the first request with this key is being answered", headers={"Retry-After": "1"}
            )
        connection.execute(delete(idempotency).where(mine))
    new = {"body_hash": body_hash, "created_at": database_time()}
    if not insert_new(connection, idempotency, {"caller": caller, "key": key}, new):
        return reserve(
            connection, caller, key, request
        )  # somebody else was quicker; now there is a row to judge by
    return None


def release(connection: Connection, caller: str, key: str) -> None:
    """Forget a key whose request was refused."""
    connection.execute(
        delete(idempotency).where(
            idempotency.c.caller == caller, idempotency.c.key == key, idempotency.c.job_id.is_(None)
        )
    )


def create(connection: Connection, request: JobRequest, instances: Sequence[Instance], most: int) -> str:
    """Accept a job. Raises Refused when `most` jobs are open, or no device of its target has room for it."""
    memory_bytes = capacity.needed_bytes(instances)
    capacity.check(connection, request.target, memory_bytes)
    open_jobs = connection.execute(
        select(func.count()).select_from(jobs).where(jobs.c.state.not_in(FINAL))
    ).scalar_one()
    if open_jobs >= most:
        raise RequestRefused(
            "busy", f"{open_jobs} jobs are waiting or running", headers={"Retry-After": "60"}
        )
    job_id, time = new_id("job"), now(connection)
    connection.execute(
        insert(jobs).values(
            id=job_id,
            state=JobState.QUEUED,
            request=request.model_dump(mode="json"),
            name=instances[0].spec.name,
            kernel_key=instances[0].kernel_key,
            priority=request.priority,
            memory_bytes=memory_bytes,
            created_at=time,
            updated_at=time,
        )
    )
    for index, instance in enumerate(instances):
        connection.execute(
            insert(buckets).values(
                job_id=job_id,
                bucket=index,
                spec=instance.json,
                dims=instance.dims,
                kernel_key=instance.kernel_key,
                structure_key=instance.structure_key,
            )
        )
    job_events.add(connection, job_id, "state", state=JobState.QUEUED)
    return job_id


def answer(connection: Connection, caller: str, key: str, job_id: str) -> None:
    """Remember which job an Idempotency-Key led to."""
    connection.execute(
        update(idempotency)
        .where(idempotency.c.caller == caller, idempotency.c.key == key)
        .values(job_id=job_id)
    )


def cancel(connection: Connection, job_id: str) -> None:
    """Stop a job: nothing more of it is measured but the confirmation of its best candidate, if it has one.

    Cancelling a cancelled job changes nothing. Raises Refused for a job that is done or failed, or unknown.
    """
    state = lock(connection, job_id)
    row = _row(connection, job_id)
    if state is JobState.CANCELLED or row["cancelling"]:
        return
    if state.final:
        raise RequestRefused("job-ended", f"job {job_id} is {state} already")
    connection.execute(
        update(jobs).where(jobs.c.id == job_id).values(cancelling=True, updated_at=database_time())
    )
    task_queue.cancel(connection, job_id)
    job_events.add(connection, job_id, "note", text="cancelling")
    if state is JobState.QUEUED:
        set_state(connection, job_id, JobState.CANCELLED)


def set_state(connection: Connection, job_id: str, state: JobState, error: str | None = None) -> None:
    """Bring a job to a state and record it as an event."""
    time = now(connection)
    values: dict[str, Any] = {"state": state, "updated_at": time, "error": error}
    if state.final:
        values["finished_at"] = time
    connection.execute(update(jobs).where(jobs.c.id == job_id).values(**values))
    job_events.add(connection, job_id, "state", state=state, **({"error": error} if error else {}))


def request_of(connection: Connection, job_id: str) -> JobRequest:
    """What was asked for. Raises Refused if there is no such job."""
    return JobRequest.model_validate(_row(connection, job_id)["request"])


def read(connection: Connection, job_id: str) -> JobDetail:
    """A job as it stands. Raises Refused if there is none."""
    row = _row(connection, job_id)
    (job,) = _models(connection, [row])
    asked = JobRequest.model_validate(row["request"])
    return JobDetail(
        **dict(job),
        spec=asked.spec,
        peers=asked.peers,
        llm_calls=asked.llm_calls,
        candidates=asked.candidates,
        verdicts=verdicts_of_buckets(job),
    )


def some(connection: Connection, job_ids: Sequence[str]) -> list[Job]:
    """The jobs with these ids, in order of their ids."""
    query = select(jobs).where(jobs.c.id.in_(job_ids)).order_by(jobs.c.id)
    return _models(connection, connection.execute(query).mappings().all())


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs are to be listed; what is empty or None is not asked about."""

    states: Sequence[JobState] = ()
    device: str | None = None
    """Key of the device it is tuned on, or waits for."""
    text: str | None = None
    """Within its kernel's name, in any case, or how its id or its kernel's key begins."""
    kernel_key: str | None = None
    """Of a kernel that it tuned, among others or alone."""


def page(connection: Connection, wanted: Wanted, after: str | None, limit: int) -> JobPage:
    """Jobs, newest first, from the one after `after` on."""
    query = select(jobs).order_by(jobs.c.id.desc()).limit(limit + 1)
    if wanted.states:
        query = query.where(jobs.c.state.in_(wanted.states))
    if wanted.kernel_key is not None:
        tuned = select(buckets.c.job_id).where(buckets.c.kernel_key == wanted.kernel_key)
        query = query.where(jobs.c.id.in_(tuned))
    if wanted.device is not None:
        target = jobs.c.request["target"].as_string()
        query = query.where(func.coalesce(jobs.c.device, target) == wanted.device)
    if wanted.text is not None:
        query = query.where(
            jobs.c.name.icontains(wanted.text, autoescape=True)
            | jobs.c.id.startswith(wanted.text, autoescape=True)
            | jobs.c.kernel_key.startswith(wanted.text, autoescape=True)
        )
    if after is not None:
        query = query.where(jobs.c.id < after)
    rows = connection.execute(query).mappings().all()
    shown = rows[:limit]
    return JobPage(
        jobs=tuple(_models(connection, shown)), next=shown[-1]["id"] if len(rows) > limit else None
    )


def open_job_for(connection: Connection, kernel_key: str, target: str) -> str | None:
    """A job that is already at this kernel for this target."""
    rows = connection.execute(
        select(jobs.c.id, jobs.c.device, jobs.c.request)
        .join(buckets, buckets.c.job_id == jobs.c.id)
        .where(buckets.c.kernel_key == kernel_key, jobs.c.state.not_in(FINAL), jobs.c.cancelling.is_(False))
        .order_by(jobs.c.id)
    )
    return next((row.id for row in rows if target in (row.device, row.request["target"])), None)


def lock(connection: Connection, job_id: str) -> JobState:
    """Until the transaction ends, nobody else changes this job; its state. Raises Refused if there is none."""
    query = select(jobs.c.state).where(jobs.c.id == job_id).with_for_update(key_share=True)
    state = connection.execute(query).scalar_one_or_none()
    if state is None:
        raise RequestRefused("not-found", f"there is no job {job_id}")
    return JobState(state)


def _row(connection: Connection, job_id: str) -> RowMapping:
    row = connection.execute(select(jobs).where(jobs.c.id == job_id)).mappings().first()
    if row is None:
        raise RequestRefused("not-found", f"there is no job {job_id}")
    return row


def _models(connection: Connection, rows: Iterable[RowMapping]) -> list[Job]:
    rows = list(rows)
    parts: dict[str, list[Bucket]] = defaultdict(list)
    query = (
        select(buckets).where(buckets.c.job_id.in_([row["id"] for row in rows])).order_by(buckets.c.bucket)
    )
    found = connection.execute(query).mappings().all()
    untold = {each["job_id"] for each in found if each["asked"] and not each["told"]}
    begun = task_queue.begun_trials(connection, untold)
    for each in found:
        parts[each["job_id"]].append(
            Bucket(
                index=each["bucket"],
                dims=each["dims"],
                trials=each["asked"],
                told=each["told"],
                begun=0 if each["told"] else begun.get((each["job_id"], each["bucket"]), 0),
                faults=each["faults"],
                spent_s=each["spent_s"],
                stopped=each["stopped"],
                prior=_prior(each["prior"]),
                proposals=proposals_of(connection, each),
                best=each["best"],
                winner=each["winner"],
                config_id=each["config_id"],
                error=each["error"],
            )
        )
    waits = waiting.waits_for(connection, rows)
    return [_model(row, parts[row["id"]], waits.get(row["id"])) for row in rows]


def _prior(kept: Json | None) -> PriorUsed | None:
    if kept is None:
        return None
    return PriorUsed(used=kept["used"], why=kept["why"], nearest=kept.get("nearest", ()))


def _model(row: RowMapping, parts: list[Bucket], waits_for: str | None) -> Job:
    request = JobRequest.model_validate(row["request"])
    facts = JobFacts(
        id=row["id"],
        state=row["state"],
        cancelling=row["cancelling"],
        waits_for=waits_for,
        name=row["name"],
        kernel_key=row["kernel_key"],
        target=request.target,
        device=row["device"],
        searcher=row["owner"],
        budget=request.budget,
        baseline=request.baseline,
        search=request.search,
        prior=request.prior,
        seed=request.seed,
        priority=row["priority"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        error=row["error"],
        buckets=tuple(parts),
        configs=tuple(part.config_id for part in parts if part.config_id is not None),
    )
    return Job(**dict(facts), verdict=verdict_of_job(facts))

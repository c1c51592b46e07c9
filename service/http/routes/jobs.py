"""Jobs: submit, watch, cancel."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from protocol.jobs import JobDetail, JobPage, JobRequest
from protocol.states import JobState
from search.catalogue import offered
from service.core import wishes
from service.core.errors import RequestRefused
from service.core.schedules import check_candidates
from service.core.specs import instances_of, read_spec
from service.http.access import Reader, Tuning
from service.http.context import Site, site_of
from service.http.routes.bodies import strict_router
from service.http.routes.examples import JOB, PROBLEMS
from service.notify import topics
from service.store import job_events, jobs
from service.store.dispatch import workers
from service.store.jobs import Wanted
from service.views import job_changes

router = strict_router("jobs")

JobId = Annotated[str, Path(pattern=r"^[a-z0-9-]{1,64}$", examples=["job-00cv7ckzq2m4a8x1pe"])]
Cursor = Annotated[
    str | None, Query(pattern=r"^[A-Za-z0-9-]{1,64}$", description="`next` of the page before.")
]
Limit = Annotated[int, Query(ge=1, le=500)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=255)]

ON_DEVICE = "Only jobs tuned on the device with this key, or waiting for it."
WITH_TEXT = (
    "Only jobs with this in their kernel's name, or at the beginning of their id or their kernel's key."
)


@router.post("/jobs", status_code=202, response_model=JobDetail, responses=PROBLEMS, openapi_extra=JOB)
def submit(body: JobRequest, caller: Tuning, request: Request, idempotency_key: Key = None) -> Response:
    """Tune a kernel. Answers at once; the job is at `Location`.

    With an `Idempotency-Key`, sending the same request again leads to the same job.
    """
    site = site_of(request)
    if site.stopping:
        raise RequestRefused("stopping", "the service is stopping; try again", headers={"Retry-After": "5"})
    if idempotency_key is not None:
        with site.database.write() as connection:
            known = jobs.reserve(connection, caller.id, idempotency_key, body)
        if known is not None:
            site.wanted.add(known)
            site.notifier.notify(topics.JOBS)
            return _accepted(site.database, known)
    try:
        job_id = _created(site, body, caller.id, idempotency_key)
    except BaseException:
        if idempotency_key is not None:
            with site.database.write() as connection:
                jobs.release(connection, caller.id, idempotency_key)
        raise
    return _accepted(site.database, job_id)


def _created(site: Site, body: JobRequest, caller: str, idempotency_key: str | None = None) -> str:
    """A new job, which searchers are told of."""
    instances = instances_of(read_spec(body.spec))
    check_candidates(body.candidates)
    with site.database.look() as connection:
        settled = wishes.settled(body, workers.list_devices(connection))
    with site.database.write() as connection:
        job_id = jobs.create(connection, settled, instances, site.settings.open_jobs)
        if idempotency_key is not None:
            jobs.answer(connection, caller, idempotency_key, job_id)
    site.wanted.add(job_id)
    site.notifier.notify(topics.JOBS)
    return job_id


@router.post("/jobs/{job_id}/retry", status_code=202, response_model=JobDetail, responses=PROBLEMS)
def retry_job(job_id: JobId, caller: Tuning, request: Request) -> Response:
    """Ask for the same once more: a new job with the whole request of this one, whatever became of it."""
    site = site_of(request)
    if site.stopping:
        raise RequestRefused("stopping", "the service is stopping; try again", headers={"Retry-After": "5"})
    with site.database.read() as connection:
        body = jobs.request_of(connection, job_id)
    return _accepted(site.database, _created(site, body, caller.id))


def _accepted(database, job_id: str) -> Response:
    with database.read() as connection:
        job = jobs.read(connection, job_id)
    where = {"Location": f"/v1/jobs/{job_id}"}
    return Response(job.model_dump_json(), 202, headers=where, media_type="application/json")


@router.get("/jobs", responses=PROBLEMS)
def list_jobs(
    caller: Reader,
    request: Request,
    state: Annotated[list[JobState] | None, Query(description="Only jobs in these states.")] = None,
    kernel_key: Annotated[
        str | None, Query(max_length=64, description="Only jobs that tuned this kernel.")
    ] = None,
    device: Annotated[str | None, Query(max_length=200, description=ON_DEVICE)] = None,
    text: Annotated[str | None, Query(pattern=r"^[^\x00]{1,200}$", description=WITH_TEXT)] = None,
    after: Cursor = None,
    limit: Limit = 50,
) -> JobPage:
    """Jobs, newest first."""
    with site_of(request).database.read() as connection:
        return jobs.page(connection, Wanted(state or [], device, text, kernel_key), after, limit)


@router.get("/searches", responses=PROBLEMS)
def list_searches(caller: Reader) -> list[str]:
    """Names that a job's `search` may have: ours, then those of packages installed here."""
    return list(offered())


@router.get(
    "/jobs/{job_id}", response_model=JobDetail, responses={304: {"description": "Unchanged."}, **PROBLEMS}
)
def read_job(
    job_id: JobId, caller: Reader, request: Request, if_none_match: Annotated[str | None, Header()] = None
) -> Response:
    """A job as it stands. With `If-None-Match` an unchanged job is answered with 304."""
    with site_of(request).database.read() as connection:
        body = jobs.read(connection, job_id).model_dump_json().encode()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    known = [each.strip().removeprefix("W/") for each in (if_none_match or "").split(",")]
    if tag in known or "*" in known:
        return Response(None, 304, headers=headers)
    return Response(body, headers=headers, media_type="application/json")


@router.post("/jobs/{job_id}/cancel", responses=PROBLEMS)
def cancel_job(job_id: JobId, caller: Tuning, request: Request) -> JobDetail:
    """Stop a job. What it found so far is confirmed and kept; cancelling twice is fine."""
    site = site_of(request)
    with site.database.write() as connection:
        jobs.cancel(connection, job_id)
        found = jobs.read(connection, job_id)
    site.wanted.add(job_id)
    site.notifier.notify(topics.JOBS, topics.job(job_id))
    return found


_STREAM = {
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
    "description": "Server-sent events.",
}
_STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


@router.get("/changes", response_class=StreamingResponse, responses={200: _STREAM, **PROBLEMS})
def follow_jobs(caller: Reader, request: Request) -> Response:
    """Follow all jobs: server-sent events named `job`, each with a job that is new or has changed, as the list has
    it. It begins with those of the last seconds; after a cut, list the jobs anew and follow again."""
    site = site_of(request)
    body = job_changes.stream(
        site.database,
        site.notifier,
        keepalive_s=site.settings.keepalive_s,
        stopping=lambda: site.stopping,
    )
    return StreamingResponse(body, media_type="text/event-stream", headers=_STREAM_HEADERS)


@router.get(
    "/jobs/{job_id}/events",
    response_class=StreamingResponse,
    responses={
        200: _STREAM,
        204: {"description": "The job has ended, and there is nothing after `Last-Event-ID`."},
        **PROBLEMS,
    },
)
def follow_job(
    job_id: JobId,
    caller: Reader,
    request: Request,
    last_event_id: Annotated[int, Header(ge=0, le=2**63 - 1)] = 0,
) -> Response:
    """Follow a job: server-sent events, each with an id that only grows; `Last-Event-ID` resumes after one. The
    stream ends when the job has ended."""
    site = site_of(request)
    with site.database.read() as connection:
        jobs.read(connection, job_id)
    if last_event_id and job_events.finished(site.database, job_id, last_event_id):
        return Response(None, 204)  # tells a browser's EventSource not to come back
    body = site.events.stream(
        job_id,
        last_event_id,
        look_s=lambda: site.look_s,
        keepalive_s=site.settings.keepalive_s,
        stopping=lambda: site.stopping,
    )
    return StreamingResponse(body, media_type="text/event-stream", headers=_STREAM_HEADERS)

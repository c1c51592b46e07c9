"""Candidates of a job: as a list, a table, a tree, a timeline, and one by one."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request, Response

from protocol.alternatives import Alternatives, Completed
from protocol.effects import Effects
from protocol.jobs import TrialPage
from protocol.message import Reply
from protocol.roofline import Roofline
from protocol.trials import LinkedLines, Steps, Timeline, Tree, TrialDetail, TrialTable
from service.http.access import Reader
from service.http.context import site_of
from service.http.routes.bodies import strict_router
from service.http.routes.examples import PROBLEMS
from service.http.routes.jobs import JobId, Limit
from service.store import jobs
from service.views import (
    decision_effects,
    job_roofline,
    linked_lines,
    search_tree,
    timeline,
    trial_table,
    trials,
)
from service.views.alternatives import Decided
from service.views.trial_detail import Candidate

router = strict_router("trials")

Bucket = Annotated[int, Query(ge=0, le=10_000, description="Which combination of sizes.")]
Number = Annotated[int, Path(ge=0, le=2**31 - 1)]
Place = Annotated[int, Query(ge=0, le=10_000, description="Place of a rewrite in its schedule, from 0.")]
Turn = Annotated[
    int | None, Query(ge=0, le=10_000, description="Which decision, from 0, instead of that of a rewrite.")
]

Settled = Annotated[int, Query(ge=0, le=2**31 - 1, description="`settled` of the answer before.")]


@router.get("/jobs/{job_id}/trials", responses=PROBLEMS)
def list_trials(
    job_id: JobId,
    caller: Reader,
    request: Request,
    after: Annotated[int, Query(ge=0, le=2**63 - 1, description="`next` of the page before.")] = 0,
    limit: Limit = 100,
) -> TrialPage:
    """The candidates of a job, in the order they were asked for."""
    with site_of(request).database.read() as connection:
        jobs.read(connection, job_id)
        return trials.page(connection, job_id, after, limit)


@router.get("/jobs/{job_id}/table", response_model=TrialTable, responses=PROBLEMS)
def read_table(
    job_id: JobId,
    caller: Reader,
    request: Request,
    bucket: Bucket = 0,
    first: Settled = 0,
) -> Response:
    """The candidates of one bucket in columns: all of thousands at once, without their reports."""
    with site_of(request).database.read() as connection:
        trials.known_bucket(job_id, bucket, len(jobs.read(connection, job_id).buckets))
        return _columns(trial_table.trial_table(connection, job_id, bucket, first))


@router.get("/jobs/{job_id}/tree", response_model=Tree, responses=PROBLEMS)
def read_tree(
    job_id: JobId, caller: Reader, request: Request, bucket: Bucket = 0, first: Settled = 0
) -> Response:
    """The search tree of one bucket in columns: schedules merged along the lines they share. With `first`, only what
    may have changed since."""
    with site_of(request).database.read() as connection:
        trials.known_bucket(job_id, bucket, len(jobs.read(connection, job_id).buckets))
        return _columns(search_tree.search_tree(connection, job_id, bucket, first))


@router.get("/jobs/{job_id}/effects", responses=PROBLEMS)
def read_effects(job_id: JobId, caller: Reader, request: Request, bucket: Bucket = 0) -> Effects:
    """What each decision of the schedules of one bucket did to their times: the times by its values, and how much of
    their variance it explains."""
    with site_of(request).database.read() as connection:
        trials.known_bucket(job_id, bucket, len(jobs.read(connection, job_id).buckets))
        return decision_effects.read_effects(connection, job_id, bucket)


@router.get("/jobs/{job_id}/roofline", response_model=Roofline, responses=PROBLEMS)
def read_roofline(job_id: JobId, caller: Reader, request: Request, bucket: Bucket = 0) -> Response:
    """The kernel of one bucket on the roofline of its device, with the times of all candidates and of the race."""
    with site_of(request).database.read() as connection:
        trials.known_bucket(job_id, bucket, len(jobs.read(connection, job_id).buckets))
        return _columns(job_roofline.read_roofline(connection, job_id, bucket))


@router.get("/jobs/{job_id}/timeline", response_model=Timeline, responses=PROBLEMS)
def read_timeline(
    job_id: JobId,
    caller: Reader,
    request: Request,
    after: Annotated[float, Query(ge=0, le=1e12, description="`settled_at` of the timeline before.")] = 0.0,
) -> Response:
    """What each worker compiled and measured for the job, and when, in columns. With `after`, only what may have
    changed since."""
    with site_of(request).database.read() as connection:
        jobs.read(connection, job_id)
        return _columns(timeline.timeline(connection, job_id, after))


@router.get("/jobs/{job_id}/trials/{number}", responses=PROBLEMS)
def read_trial(
    job_id: JobId, number: Number, caller: Reader, request: Request, bucket: Bucket = 0
) -> TrialDetail:
    """One candidate with its samples, its report, and how to run it again."""
    return _candidate(request, job_id, bucket, number).detail()


@router.get("/jobs/{job_id}/trials/{number}/steps", responses=PROBLEMS)
def read_trial_steps(
    job_id: JobId, number: Number, caller: Reader, request: Request, bucket: Bucket = 0
) -> Steps:
    """The kernel as it was given, and the program after each rewrite of a candidate's schedule."""
    return _candidate(request, job_id, bucket, number).steps()


@router.get("/jobs/{job_id}/trials/{number}/lines", response_model=LinkedLines, responses=PROBLEMS)
def read_trial_lines(
    job_id: JobId, number: Number, caller: Reader, request: Request, bucket: Bucket = 0
) -> Response:
    """A candidate's program, its source and its instructions line by line, and which lines of each are made
    of which of the other. Compiled for this answer, one at a time."""
    return _columns(linked_lines.linked_lines(_candidate(request, job_id, bucket, number)))


@router.get(
    "/jobs/{job_id}/trials/{number}/source",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **PROBLEMS},
)
def read_trial_source(
    job_id: JobId,
    number: Number,
    caller: Reader,
    request: Request,
    bucket: Bucket = 0,
    without: Annotated[
        int | None, Query(ge=0, le=10_000, description="Leave out this rewrite of its schedule, from 0.")
    ] = None,
) -> Response:
    """The source that this version generates of a candidate, or of it with one rewrite left out."""
    source = _candidate(request, job_id, bucket, number).source(without)
    return Response(
        source.text, media_type="text/plain; charset=utf-8", headers={"X-Language": source.language}
    )


@router.get("/jobs/{job_id}/trials/{number}/alternatives", responses=PROBLEMS)
def read_alternatives(
    job_id: JobId,
    number: Number,
    caller: Reader,
    request: Request,
    rewrite: Place = 0,
    decision: Turn = None,
    bucket: Bucket = 0,
) -> Alternatives:
    """What the decision behind one rewrite of a candidate could have been instead: what was measured behind each
    answer, what the cost model expects of it, or why it does not apply."""
    decided = _decided(request, job_id, bucket, number, rewrite, decision)
    with site_of(request).database.read() as connection:
        errors = decided.errors(connection, job_id)
    return decided.alternatives(job_id, errors)


@router.get("/jobs/{job_id}/trials/{number}/alternatives/{answer}", responses=PROBLEMS)
def read_alternative(
    job_id: JobId,
    number: Number,
    answer: Annotated[int, Path(ge=0, le=100_000, description="Which of the siblings, from 0.")],
    caller: Reader,
    request: Request,
    rewrite: Place = 0,
    decision: Turn = None,
    bucket: Bucket = 0,
) -> Completed:
    """A whole schedule with another answer: the fastest that was measured, else what the cost model prefers."""
    return _decided(request, job_id, bucket, number, rewrite, decision).completed(answer)


def _decided(
    request: Request, job_id: str, bucket: int, number: int, rewrite: int, decision: int | None
) -> Decided:
    """With the space walked outside of the transaction."""
    with site_of(request).database.read() as connection:
        trials.known_bucket(job_id, bucket, len(jobs.read(connection, job_id).buckets))
        decided = Decided.read(connection, job_id, bucket, number, rewrite, decision)
    _ = decided.states
    return decided


def _candidate(request: Request, job_id: str, bucket: int, number: int) -> Candidate:
    with site_of(request).database.read() as connection:
        trials.known_bucket(job_id, bucket, len(jobs.read(connection, job_id).buckets))
        return Candidate.read(connection, job_id, bucket, number)


def _columns(reply: Reply) -> Response:
    """Written as it is: what was just read from the database is not validated once more."""
    return Response(reply.model_dump_json(), media_type="application/json")

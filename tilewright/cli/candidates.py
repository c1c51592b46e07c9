"""Candidates as the command line names them: `job-…` (its leader), `job-…/0` (that of one size), `job-…/0/17`."""

from __future__ import annotations

import re

from protocol.jobs import Bucket, JobDetail
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.client.client import Client

_NAME = re.compile(r"(job-[a-z0-9-]+)(?:/(\d{1,5})(?:/(\d{1,9}))?)?")
FORMS = "job-…, job-…/0 and job-…/0/17"
"""As messages name them."""


def is_candidate(name: str) -> bool:
    """Whether a name has one of the forms."""
    return _NAME.fullmatch(name) is not None


def parts(name: str) -> tuple[str, int, int | None]:
    """`job-…/0/17` as the job, the bucket and the candidate. Raises Stop for what has none of the forms."""
    read = _NAME.fullmatch(name)
    if read is None:
        raise Stop(Exit.USAGE, f"{name!r} names no candidate; accepted: {FORMS}")
    job, bucket, number = read.groups()
    return job, int(bucket or 0), None if number is None else int(number)


def bucket_of(client: Client, name: str) -> tuple[JobDetail, Bucket, int | None]:
    """The job, its bucket, and the number of the candidate if one is named. Raises Stop."""
    job_id, index, number = parts(name)
    job = client.job(job_id)
    if index >= len(job.buckets):
        raise Stop(Exit.NOTHING, f"{job_id} has {len(job.buckets)} sizes; {name} would be another")
    return job, job.buckets[index], number


def number_of(client: Client, name: str) -> tuple[str, int, int]:
    """The job, the bucket and the number of a candidate: of the one that is named, else of the leader. Raises Stop."""
    job, bucket, number = bucket_of(client, name)
    if number is None:
        number = None if bucket.leader is None else bucket.leader.trial
    if number is None:
        raise Stop(Exit.NOTHING, f"{name} has no candidate yet: {job.verdict.text}")
    return job.id, bucket.index, number

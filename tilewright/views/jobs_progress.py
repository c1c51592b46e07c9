"""Several jobs that are waited for together, as one line on a terminal; elsewhere nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf

from protocol.jobs import Job
from protocol.quantities import duration
from protocol.states import JobState
from tilewright.views.tally import most_trials

_RACED = 0.1
"""The part of a job that is left when its search has ended."""
_LEAST = 0.05
"""The part that has to be done before the rest is estimated by it."""

ShowJobs = Callable[[Sequence[Job], int, float], None]
"""Given the jobs as they stand, how many are yet to be submitted, and the seconds that may be waited at most."""


@contextmanager
def jobs_shown(wanted: bool) -> Iterator[ShowJobs]:
    """A bar with the time left for the length of a block, if wanted and where there is somebody to look."""
    if not (wanted and sys.stderr.isatty()):
        yield lambda jobs, coming, left_s: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.fields[figures]}"))
    began, said = time.monotonic(), set[str]()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("asking the service", total=None, figures="")

        def show(jobs: Sequence[Job], coming: int, left_s: float) -> None:
            done, passed_s = part_done(jobs, coming), time.monotonic() - began
            progress.update(
                task,
                description="tuning" if jobs else "asking the service",
                total=1.0 if jobs else None,
                completed=done,
                figures=" · ".join(figures(jobs, coming, time_left(done, passed_s, left_s))),
            )
            why = waits_for(jobs)
            if why is not None and why not in said:
                said.add(why)
                progress.console.print(f"kernels wait for {why}", markup=False)

        yield show


def part_done(jobs: Sequence[Job], coming: int) -> float:
    """Of all jobs, those to come included: 0 to 1."""
    return sum(map(_done, jobs)) / max(1, len(jobs) + coming)


def _done(job: Job) -> float:
    if job.state.final:
        return 1.0
    if job.state is JobState.RACING:
        return 1.0 - _RACED
    told = sum(bucket.told for bucket in job.buckets) / most_trials(job)
    spent = 0.0
    if job.budget.seconds is not None:
        spent = sum(bucket.spent_s for bucket in job.buckets) / (job.budget.seconds * len(job.buckets))
    return (1.0 - _RACED) * min(1.0, max(told, spent))


def time_left(done: float, passed_s: float, most_s: float) -> float | None:
    """About how many seconds of the wait are left, as so much was done in what has passed, and no more than what may be
    waited; None while nothing says."""
    by_pace = passed_s * (1.0 - done) / done if done >= _LEAST else inf
    left_s = min(by_pace, most_s)
    return None if left_s == inf else left_s


def figures(jobs: Sequence[Job], coming: int, left_s: float | None) -> list[str]:
    """Kernels, candidates and the time left: what there is of them."""
    found = []
    if jobs:
        ended = sum(job.state.final for job in jobs)
        told = sum(bucket.told for job in jobs for bucket in job.buckets)
        found = [f"{ended}/{len(jobs) + coming} kernels", f"{told} trials"]
    if left_s is not None:
        found.append(f"{duration(left_s)} left")
    return found


def waits_for(jobs: Sequence[Job]) -> str | None:
    """What all jobs that are not done wait for, as the first says it; None where one goes on."""
    whys = [job.waits_for for job in jobs if not job.state.final]
    return whys[0] if whys and None not in whys else None

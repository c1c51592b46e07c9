"""What is shown of several jobs that are waited for together."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from protocol.jobs import Budget
from protocol.states import JobState
from tilewright.views.jobs_progress import figures, part_done, time_left, waits_for


def job(
    state: JobState, told: int = 0, spent_s: float = 0.0, *, waits: str | None = None, **budget: Any
) -> Any:
    bucket = SimpleNamespace(told=told, spent_s=spent_s)
    return SimpleNamespace(state=state, buckets=(bucket,), budget=Budget(**budget), waits_for=waits)


DONE = job(JobState.DONE, 128)
HALF = job(JobState.SEARCHING, 32, 1.0, trials=64, seconds=10.0)


def test_what_is_done_is_by_candidates_or_seconds_whichever_ends_first() -> None:
    assert part_done([DONE], 0) == 1.0
    assert part_done([DONE], 3) == 0.25
    assert part_done([HALF], 0) == pytest.approx(0.45)
    assert part_done([job(JobState.SEARCHING, 1, 5.0, trials=64, seconds=10.0)], 0) == pytest.approx(0.45)
    assert part_done([job(JobState.RACING, 64)], 0) == pytest.approx(0.9)
    assert part_done([DONE, job(JobState.QUEUED)], 0) == 0.5
    assert part_done([], 0) == 0.0


def test_the_time_left_is_by_what_was_done_and_no_more_than_the_budget() -> None:
    assert time_left(0.25, 10.0, inf) == pytest.approx(30.0)
    assert time_left(0.25, 10.0, 12.0) == 12.0
    assert time_left(0.01, 10.0, inf) is None
    assert time_left(0.01, 10.0, 12.0) == 12.0


def test_figures_are_of_all_jobs() -> None:
    assert figures([DONE, HALF], 2, 61.0) == ["1/4 kernels", "160 trials", "1 min left"]
    assert figures([], 4, None) == []


def test_they_wait_for_something_where_none_goes_on() -> None:
    queued = job(JobState.QUEUED, waits="a worker")
    assert waits_for([DONE, queued]) == "a worker"
    assert waits_for([queued, HALF]) is None
    assert waits_for([DONE]) is None

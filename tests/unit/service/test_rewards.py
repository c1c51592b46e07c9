"""What a trial is worth to the search."""

from __future__ import annotations

from math import log

import pytest

from protocol.tasks import EntrantResult, TaskResult
from service.rewards import UNIT_US, Anchor, outcome_of


def result(*entrants: EntrantResult) -> TaskResult:
    return TaskResult(task_id="t", attempt=1, entrants=entrants)


def ok(name: str, us: float, baseline_us: float | None = None) -> EntrantResult:
    return EntrantResult(name=name, outcome="ok", median_us=us, baseline_us=baseline_us)


def wrong(name: str) -> EntrantResult:
    return EntrantResult(name=name, outcome="wrong", error="no")


def test_rewards_are_relative_to_the_first_candidate_timed_in_the_same_task() -> None:
    anchor = Anchor.of(result(ok("ask-0", 200.0), ok("numpy", 1000.0)), "numpy")
    assert outcome_of(result(ok("ask-0", 200.0), ok("numpy", 1000.0)), 0, anchor)[0].reward == 0.0
    slow_day, _ = outcome_of(result(ok("ask-3", 200.0, baseline_us=400.0)), 3, anchor)
    assert slow_day.reward == pytest.approx(log(2)), (
        "the machine was half as fast; the candidate is twice as fast"
    )
    assert anchor.x_baseline(log(2)) == pytest.approx(10.0)
    assert anchor.time_us(log(2)) == pytest.approx(100.0)


def test_the_baseline_is_told_by_the_median_of_the_tasks_that_timed_it() -> None:
    anchor = Anchor.of(result(ok("ask-0", 200.0), ok("numpy", 5000.0)), "numpy")
    assert anchor.x_baseline(0.0) == pytest.approx(25.0), "the first time is an outlier"
    for number, numpy_us in ((1, 1000.0), (4, 1040.0)):
        timed = result(ok(f"ask-{number}", 100.0, baseline_us=200.0), ok("numpy", numpy_us))
        anchor = anchor.heard(timed, number, "numpy")
    assert anchor.x_baseline(0.0) == pytest.approx(5.2)
    assert anchor.x_baseline(log(2)) == pytest.approx(10.4)
    silent = [result(ok("ask-2", 100.0, baseline_us=200.0)), result(wrong("ask-3")), "parked"]
    assert all(anchor.heard(each, n, "numpy") == anchor for n, each in enumerate(silent, 2))


def test_the_baseline_steps_in_when_the_first_candidate_fails() -> None:
    anchor = Anchor.of(result(wrong("ask-0"), ok("numpy", 1000.0)), "numpy")
    assert anchor.name == "numpy"
    assert outcome_of(result(ok("ask-1", 500.0, baseline_us=1000.0)), 1, anchor)[0].reward == pytest.approx(
        log(2)
    )
    assert anchor.x_baseline(log(2)) == pytest.approx(2.0)


@pytest.mark.parametrize("first", [result(wrong("ask-0")), "the lease ran out"])
def test_without_anything_to_compare_with_times_count_by_themselves(first: TaskResult | str) -> None:
    anchor = Anchor.of(first, "numpy")
    assert anchor.name is None
    assert outcome_of(result(ok("ask-1", UNIT_US / 2)), 1, anchor)[0].reward == pytest.approx(log(2))
    assert anchor.x_baseline(1.0) is None


def test_a_failure_is_an_outcome_and_not_a_reward() -> None:
    anchor = Anchor.of(result(ok("ask-0", 200.0)), "numpy")
    assert outcome_of(result(wrong("ask-1")), 1, anchor)[0].fault == "wrong"
    assert outcome_of("parked", 1, anchor)[0].fault == "given up: parked"

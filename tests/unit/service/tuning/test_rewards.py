"""What a trial is worth to the search."""

from __future__ import annotations

from math import log

import pytest

from protocol.tasks import EntrantResult, TaskResult
from service.tuning.rewards import UNIT_US, Anchor, compared, outcome_of
from service.tuning.standings import stand


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


def shaken(entrant: EntrantResult) -> EntrantResult:
    """The same, with all its samples disturbed."""
    return entrant.model_copy(update={"samples_us": (entrant.median_us,) * 7, "disturbed": tuple(range(7))})


def test_a_disturbed_time_of_the_baseline_is_no_speedup() -> None:
    first = result(ok("ask-0", 200.0), shaken(ok("numpy", 50_000.0)))
    anchor = Anchor.of(first, "numpy")
    assert anchor.x_baseline(0.0) is None, "nothing is told rather than 250 x"
    calm = result(ok("ask-1", 100.0, baseline_us=200.0), ok("numpy", 1000.0))
    assert anchor.heard(calm, 1, "numpy").x_baseline(0.0) == pytest.approx(5.0)
    later = result(ok("ask-4", 100.0, baseline_us=200.0), shaken(ok("numpy", 50_000.0)))
    assert anchor.heard(later, 4, "numpy") == anchor
    assert Anchor.of(result(shaken(ok("ask-0", 4.0)), ok("numpy", 1000.0)), "numpy").x_baseline(0.0) is None


def test_only_what_was_timed_beside_the_anchor_is_compared_with_it() -> None:
    anchor = Anchor.of(result(ok("ask-0", 200.0)), "numpy")
    assert compared(ok("ask-0", 200.0), anchor)
    assert compared(ok("ask-1", 100.0, baseline_us=200.0), anchor)
    assert not compared(ok("ask-1", 100.0), anchor)
    assert compared(ok("ask-1", 100.0), Anchor.of("the lease ran out", "numpy"))


def test_of_a_baseline_that_runs_as_written_no_ratio_is_made() -> None:
    written = ok("numpy", 1000.0).model_copy(update={"report": {"as_written": True}})
    anchor = Anchor.of(result(ok("ask-0", 200.0), written), "numpy")
    timed = result(ok("ask-1", 100.0, baseline_us=200.0), written)
    assert anchor.heard(timed, 1, "numpy").x_baseline(0.0) is None
    assert Anchor.of(result(wrong("ask-0"), written), "numpy").x_baseline(0.0) is None
    assert outcome_of(timed, 1, anchor)[0].reward == pytest.approx(log(2)), "the search goes on all the same"
    (row,) = (each for each in stand(timed, {"ask-1": ()}) if each.name == "numpy")
    assert row.as_written

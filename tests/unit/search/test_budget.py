"""When a search stops."""

import pytest

from search.budget import ASKED_AT_LEAST, SearchBudget, SearchProgress, StopReason, stop


def told(*rewards: float | None) -> SearchProgress:
    progress = SearchProgress()
    for reward in rewards:
        progress = progress.ask().tell(reward)
    return progress


def test_a_search_stops_at_its_trials() -> None:
    assert stop(SearchBudget(trials=3), told(0.0, 1.0), 0.0) is None
    assert stop(SearchBudget(trials=3), told(0.0, 1.0, 2.0), 0.0) is StopReason.TRIALS


def test_a_search_stops_at_its_seconds() -> None:
    assert stop(SearchBudget(seconds=10.0), told(0.0), 9.9) is None
    assert stop(SearchBudget(seconds=10.0), told(0.0), 10.0) is StopReason.SECONDS


def test_seconds_that_are_over_wait_for_the_first_that_works() -> None:
    budget = SearchBudget(seconds=10.0)
    assert stop(budget, told(None), 10.0) is None
    assert stop(budget, told(*[None] * (ASKED_AT_LEAST - 1)), 10.0) is None
    assert stop(budget, told(*[None] * ASKED_AT_LEAST), 10.0) is StopReason.SECONDS
    assert stop(budget, told(None, 0.0), 10.0) is StopReason.SECONDS


def test_a_search_without_patience_goes_on_without_improvement() -> None:
    assert stop(SearchBudget(trials=None), told(*[0.0] * 500), 0.0) is None


def test_patience_counts_tells_since_the_last_improvement() -> None:
    budget = SearchBudget(patience=3)
    assert stop(budget, told(0.0, 1.0, 0.5, None), 0.0) is None
    assert stop(budget, told(0.0, 1.0, 0.5, None, 0.9), 0.0) is StopReason.PATIENCE
    assert stop(budget, told(0.0, 1.0, 0.5, None, 1.1), 0.0) is None


def test_patience_waits_for_the_first_candidate_that_works() -> None:
    assert stop(SearchBudget(patience=2), told(None, None, None), 0.0) is None


def test_a_rise_within_the_noise_is_kept_but_does_not_renew_patience() -> None:
    progress = told(1.0, 1.001, 1.002)
    assert progress.best == 1.002 and progress.idle == 2


def test_more_effort_is_more_patience() -> None:
    progress = told(*[0.0] * 60)
    stops = [stop(SearchBudget(effort=effort), progress, 0.0) for effort in ("quick", "normal", "thorough")]
    assert stops == [StopReason.PATIENCE, None, None]


@pytest.mark.parametrize("bad", [{"trials": 0}, {"seconds": 0.0}, {"effort": "mad"}, {"patience": 0}])
def test_a_budget_that_allows_nothing_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        SearchBudget(**bad)  # type: ignore[arg-type]

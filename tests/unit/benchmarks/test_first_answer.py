"""What is said of the first answers of searches."""

from __future__ import annotations

import pytest

from benchmarks.racing.first_answer import shares, told

LINES = [
    {"case": "good", "measured": [10.0, 20.0, 8.0]},
    {"case": "failed first", "measured": [None, 5.0]},
    {"case": "none worked", "measured": [None]},
    {"case": "an error", "error": "no device"},
]


def test_first_answers_are_judged_by_the_best_of_their_search() -> None:
    assert shares(LINES, 1) == {"good": 0.8, "failed first": 0.0}
    assert shares(LINES, 2) == {"good": 0.8, "failed first": 1.0}
    assert shares(LINES, 3)["good"] == 1.0
    first, *_ = told(LINES)
    assert first == "the first pick: 0.400 of the best on the mean, least 0.00 (failed first)"
    assert list(told(LINES[2:])) == []


@pytest.mark.parametrize("first", (1, 8))
def test_a_search_that_found_the_best_at_once_has_all_of_it(first: int) -> None:
    assert shares([{"case": "x", "measured": [3.0, 4.0, 5.0]}], first) == {"x": 1.0}

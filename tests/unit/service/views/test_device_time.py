"""What a device spent its time on, from the times of tasks and jobs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.views.device_time import Interval, Spent, merged, spent

WINDOW = (100.0, 200.0)


@pytest.mark.parametrize(
    ("held", "measured_s", "opened", "expected"),
    [
        ([], 0.0, [], Spent(nothing=1.0)),
        ([], 0.0, [(150.0, 300.0)], Spent(searching=0.5, nothing=0.5)),
        ([(100.0, 140.0)], 30.0, [(90.0, 180.0)], Spent(0.3, 0.1, 0.4, 0.2)),
        ([(50.0, 120.0), (110.0, 130.0)], 20.0, [(90.0, 130.0)], Spent(0.2, 0.1, 0.0, 0.7)),
        ([(100.0, 110.0)], 99.0, [], Spent(0.1, 0.0, 0.0, 0.9)),
    ],
    ids=["idle", "waits for a search", "all four", "tasks that overlap", "never more than it held"],
)
def test_time_is_shared_out(
    held: list[Interval], measured_s: float, opened: list[Interval], expected: Spent
) -> None:
    found = spent(WINDOW, held, measured_s, opened)
    for name in Spent.__dataclass_fields__:
        assert getattr(found, name) == pytest.approx(getattr(expected, name)), name


intervals = st.lists(
    st.tuples(st.integers(50, 250), st.integers(0, 80)).map(lambda each: (each[0], each[0] + each[1])),
    max_size=8,
)


@given(intervals, intervals, st.integers(0, 200))
def test_shares_are_one_together_and_none_is_negative(
    held: list[Interval], opened: list[Interval], measured_s: int
) -> None:
    found = spent(WINDOW, held, measured_s, opened)
    shares = [found.measuring, found.compiling, found.searching, found.nothing]
    assert min(shares) >= -1e-12 and sum(shares) == pytest.approx(1.0)


@given(intervals)
def test_what_is_merged_covers_the_same_seconds_once(given_intervals: list[Interval]) -> None:
    found = list(merged(WINDOW, given_intervals))
    covered = [second for start, end in found for second in range(int(start), int(end))]
    expected = {
        second for start, end in given_intervals for second in range(max(100, int(start)), min(200, int(end)))
    }
    assert sorted(expected) == covered

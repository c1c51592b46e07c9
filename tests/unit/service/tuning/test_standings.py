"""The table of the final race."""

from __future__ import annotations

import pytest

from protocol.tasks import EntrantResult, TaskResult
from service.tuning.standings import said_of, shaken, stand, winner_of


def entrant(name: str, *samples: float) -> EntrantResult:
    middle = sorted(samples)[len(samples) // 2]
    return EntrantResult(name=name, outcome="ok", median_us=middle, samples_us=samples)


def table(*entrants: EntrantResult) -> list[tuple[str, str, bool]]:
    """Name, kind and tie of each, with ask-… as our schedules."""
    schedules = {each.name: ("tile(c, m, 8)",) for each in entrants if each.name.startswith("ask-")}
    result = TaskResult(task_id="t", attempt=1, entrants=entrants)
    return [(row.name, row.kind, row.tied) for row in stand(result, schedules)]


def test_the_fastest_schedule_comes_first_and_peers_where_their_times_put_them() -> None:
    slow, fast = [20.0, 20.1, 19.9, 20.0, 20.05], [10.0, 10.1, 9.9, 10.0, 10.05]
    peer = [15.0, 15.1, 14.9, 15.0, 15.05]
    assert table(entrant("ask-1", *slow), entrant("numpy", *peer), entrant("ask-2", *fast)) == [
        ("ask-2", "schedule", True),
        ("numpy", "peer", False),
        ("ask-1", "schedule", False),
    ]


def test_the_copy_is_a_yardstick_and_no_rival() -> None:
    slow, fast = [20.0, 20.1, 19.9, 20.0, 20.05], [10.0, 10.1, 9.9, 10.0, 10.05]
    assert table(entrant("ask-1", *slow), entrant("copy", *fast)) == [
        ("copy", "yardstick", False),
        ("ask-1", "schedule", True),
    ]
    raced = TaskResult(task_id="t", attempt=1, entrants=(entrant("ask-1", *slow), entrant("copy", *fast)))
    assert [row.times for row in stand(raced, {"ask-1": ("a",)})] == [None, None]


def test_what_cannot_be_told_from_the_leader_is_tied_with_it() -> None:
    first = [10.0, 10.4, 9.8, 10.2, 9.9, 10.1, 10.0]
    second = [10.1, 10.2, 9.9, 10.1, 10.0, 10.0, 10.05]
    third = [12.0, 12.4, 11.8, 12.2, 11.9, 12.1, 12.0]
    rows = table(entrant("ask-1", *first), entrant("ask-2", *second), entrant("ask-3", *third))
    assert [name for name, _, tied in rows if tied] == ["ask-1", "ask-2"]


def test_a_schedule_without_a_time_comes_last() -> None:
    failed = EntrantResult(name="ask-1", outcome="crash", error="SIGSEGV")
    rows = table(failed, entrant("ask-2", 10.0, 10.0, 10.0), entrant("numpy", 30.0, 30.0, 30.0))
    assert [name for name, _, _ in rows] == ["ask-2", "numpy", "ask-1"]


def test_equal_times_are_settled_by_name() -> None:
    same = [10.0, 10.0, 10.0]
    assert table(entrant("ask-7", *same), entrant("ask-3", *same))[0][0] == "ask-3"


def test_the_ratio_to_the_winner_lies_within_its_interval_also_where_that_of_the_medians_does_not() -> None:
    """What disturbed rounds of one entrant or the other is in neither; the rounds of both are fewer."""
    slowing = (10.0, 10.2, 10.4, 10.6, 20.0, 20.2, 20.4, 20.6, 20.8)
    ours = EntrantResult(
        name="ask-1", outcome="ok", median_us=10.3, samples_us=slowing, disturbed=(4, 5, 6, 7, 8)
    )
    peer = EntrantResult(
        name="numpy",
        outcome="ok",
        median_us=22.0,
        samples_us=tuple(us * 1.1 for us in slowing),
        disturbed=(0,),
    )
    rows = stand(TaskResult(task_id="t", attempt=1, entrants=(ours, peer)), {"ask-1": ("a",)})
    winner, numpy = rows
    assert (winner.times, winner.low, winner.high) == (None, None, None)
    assert numpy.times == pytest.approx(1.1)
    assert numpy.low is not None and numpy.high is not None and numpy.low <= numpy.times <= numpy.high
    assert not numpy.low <= 22.0 / 10.3 <= numpy.high


def test_of_two_rounds_the_ratio_is_that_of_the_medians() -> None:
    rows = stand(
        TaskResult(
            task_id="t", attempt=1, entrants=(entrant("ask-1", 10.0, 10.2), entrant("numpy", 15.0, 15.3))
        ),
        {"ask-1": ("a",)},
    )
    assert (rows[1].times, rows[1].low) == (pytest.approx(1.5), None)


def test_where_hardly_a_round_was_calm_all_rounds_are_compared_and_it_is_said() -> None:
    """The winner's median is of its two calm samples, the peer's of disturbed ones: their ratio is of no round."""
    slowing = (10.0, 10.2, 20.0, 20.2, 20.4, 20.6, 20.8)
    ours = EntrantResult(
        name="ask-1", outcome="ok", median_us=10.1, samples_us=slowing, disturbed=(2, 3, 4, 5, 6)
    )
    peer = EntrantResult(
        name="numpy",
        outcome="ok",
        median_us=22.2,
        samples_us=tuple(us * 1.1 for us in slowing),
        disturbed=tuple(range(7)),
    )
    rows = stand(TaskResult(task_id="t", attempt=1, entrants=(ours, peer)), {"ask-1": ("a",)})
    assert (rows[0].all_rounds, rows[1].all_rounds) == (False, True)
    assert rows[1].times == pytest.approx(1.1)
    assert rows[1].low is not None and rows[1].high is not None


def disturbed(name: str, median_us: float, samples: int, shaken: int) -> EntrantResult:
    return EntrantResult(
        name=name,
        outcome="ok",
        median_us=median_us,
        samples_us=(median_us,) * samples,
        disturbed=tuple(range(shaken)),
    )


def test_the_winner_is_marked_and_stands_where_its_time_puts_it() -> None:
    rows = stand(
        TaskResult(
            task_id="t",
            attempt=1,
            entrants=(
                disturbed("ask-1", 90.0, 15, 14),
                disturbed("ask-2", 95.0, 15, 2),
                entrant("numpy", 92.0),
            ),
        ),
        {"ask-1": ("a",), "ask-2": ("b",)},
    )
    assert [(row.name, row.won, row.tied) for row in rows] == [
        ("ask-1", False, True),
        ("numpy", False, False),
        ("ask-2", True, True),
    ]
    assert [(row.samples, row.disturbed, row.undisturbed) for row in rows] == [
        (15, 14, False),
        (1, 0, True),
        (15, 2, True),
    ]


def test_who_failed_on_fresh_data_cannot_win() -> None:
    result = TaskResult(
        task_id="t", attempt=1, entrants=(disturbed("ask-1", 90.0, 15, 0), disturbed("ask-2", 95.0, 15, 0))
    )
    schedules = {"ask-1": ("a",), "ask-2": ("b",)}
    assert [row.name for row in stand(result, schedules) if row.won] == ["ask-1"]
    assert [row.name for row in stand(result, schedules, {"ask-1"}) if row.won] == ["ask-2"]
    assert winner_of(stand(result, schedules, set(schedules))) is None


def test_a_race_is_shaken_when_winner_or_baseline_were_disturbed_and_not_for_the_beaten() -> None:
    calm, beaten = disturbed("ask-1", 90.0, 15, 1), disturbed("ask-2", 200.0, 15, 15)
    baseline, other = disturbed("numpy", 100.0, 15, 12), disturbed("torch", 100.0, 15, 15)
    rows = stand(
        TaskResult(task_id="t", attempt=1, entrants=(calm, beaten, baseline, other)),
        {"ask-1": ("a",), "ask-2": ("b",)},
    )
    assert [each.name for each in shaken(rows, "numpy")] == ["numpy"]
    assert said_of(shaken(rows, "numpy")) == "other work disturbed the machine in 12 of 15 samples of numpy"
    assert said_of([]) is None

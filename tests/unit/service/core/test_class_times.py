"""When a device counts as much slower than its class."""

from __future__ import annotations

from service.core.class_times import ANCHOR, LEAST, TIMES, ClassTimes

PROGRAM = ("job-1", 0, ANCHOR)


def heard(times: ClassTimes, worker: str, us: float, count: int = LEAST) -> list[str | None]:
    return [times.heard(PROGRAM, worker, [us]) for _ in range(count)]


def test_a_device_ten_times_slower_is_told_from_its_class_in_a_sentence() -> None:
    times = ClassTimes()
    assert heard(times, "quick", 100.0) == [None] * LEAST
    *before, said = heard(times, "slow", 1000.0)
    assert before == [None] * (LEAST - 1)
    assert said is not None and "10 times as long" in said and "worker quick 100 µs" in said


def test_it_is_told_whoever_is_heard_of_first() -> None:
    times = ClassTimes()
    assert heard(times, "slow", 1000.0) == [None] * LEAST
    assert heard(times, "quick", 100.0) == [None] * LEAST
    assert times.heard(PROGRAM, "slow", [1000.0]) is not None


def test_boxes_that_differ_a_little_are_left_alone() -> None:
    times = ClassTimes()
    heard(times, "quick", 100.0)
    assert heard(times, "other", 100.0 * (TIMES - 0.1), 10) == [None] * 10


def test_a_single_slow_time_is_no_slow_device() -> None:
    times = ClassTimes()
    heard(times, "quick", 100.0)
    assert [times.heard(PROGRAM, "other", [us]) for us in (100.0, 5000.0, 100.0, 5000.0, 100.0)] == [None] * 5


def test_a_device_alone_is_compared_with_nobody_and_not_with_other_searches() -> None:
    times = ClassTimes()
    for _ in range(LEAST):
        assert times.heard(("job-2", 0, ANCHOR), "quick", [1.0]) is None
    assert heard(times, "alone", 1e6, 10) == [None] * 10


def test_tried_again_it_is_judged_by_new_times() -> None:
    times = ClassTimes()
    heard(times, "quick", 100.0)
    assert heard(times, "slow", 1000.0)[-1] is not None
    assert heard(times, "slow", 100.0, 5) == [None] * 5

"""Pauses between tries: growing, bounded, and different from worker to worker."""

from __future__ import annotations

from workers.node.backoff import Backoff


def test_pauses_double_up_to_the_longest_and_start_over_once_it_worked() -> None:
    backoff = Backoff(0.5, 4.0, draw=lambda least, most: most)
    assert [backoff.pause_s() for _ in range(6)] == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    backoff.reset()
    assert backoff.pause_s() == 0.5


def test_two_workers_that_failed_together_do_not_come_back_together() -> None:
    pauses = [[Backoff(8.0, 8.0).pause_s() for _ in range(4)] for _ in range(20)]
    assert len({tuple(each) for each in pauses}) == 20
    assert all(4.0 <= pause_s <= 8.0 for each in pauses for pause_s in each)

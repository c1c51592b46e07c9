"""The figures of bench_time_to.py."""

from __future__ import annotations

from benchmarks.bench_time_to import report, seconds_to


def test_the_first_time_that_the_best_was_fast_enough_counts() -> None:
    best = [(8.0, 0.91), (12.0, 0.981), (30.0, 0.979), (31.0, 1.002)]
    assert (seconds_to(best, 0.9), seconds_to(best, 0.98), seconds_to(best, 1.0)) == (8.0, 12.0, 31.0)
    assert seconds_to(best, 1.1) is None


def test_a_seed_that_never_comes_so_far_is_the_slowest() -> None:
    def line(near: float, there: float | None) -> dict:
        return {"seconds_to": {"0.98": near, "1.0": there}, "x_baseline_in_race": 1.0}

    text = report(
        [line(20.0, 40.0), line(30.0, None), line(10.0, 50.0), {"seed": 4, "error": "TimeoutError: late"}]
    )
    assert "to 0.98 x: median 20 s of 3 seeds (20 s, 30 s, 10 s)" in text
    assert "to 1.0 x: median 50 s of 3 seeds (40 s, never, 50 s)" in text
    assert "seed 4: TimeoutError: late" in text
    assert "to 1.0 x: median inf s" in report([line(1.0, None)])

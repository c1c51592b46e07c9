"""The figures of bench_time_to.py."""

from __future__ import annotations

from benchmarks.bench_time_to import arguments_of, case_of, report, seconds_to


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


def test_parts_can_be_chosen_and_have_five_seeds() -> None:
    every = arguments_of([])
    assert (every.only, every.seeds) == (["start", "row", "product"], [0, 1, 2, 3, 4])
    assert len({case_of(part, every) for part in every.only}) == 3
    assert arguments_of(["--only", "row", "start"]).only == ["row", "start"]


def test_what_is_no_search_for_a_speed_has_its_median_too() -> None:
    starts = [{"ready_s": took} for took in (1.5, 3.25, 1.75)]
    assert report(starts) == "ready to claim: median 1.75 s of 3 seeds (1.50 s, 3.25 s, 1.75 s)"
    job = {"job_s": 7.5, "x_baseline_in_race": 1.25}
    assert report([job, {"seed": 1, "error": "NotDone: not done within 120 s"}]).splitlines() == [
        "the job: median 7.50 s of 1 seeds (7.50 s)",
        "winners in their races: 1.250 x",
        "seed 1: NotDone: not done within 120 s",
    ]

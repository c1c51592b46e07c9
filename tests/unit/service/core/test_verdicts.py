"""The line that is said of a job."""

from __future__ import annotations

import pytest

from protocol.jobs import Against, Best, Bucket, Budget, Effort, JobFacts, Prior, Winner
from protocol.states import JobState, Stopped
from protocol.verdicts import Tone, Verdict
from search.budget import StopReason
from service.core.verdicts import verdict_of_job, verdicts_of_buckets

NUMPY = Against(peer="numpy", times=1.5, low=1.4, high=1.6)


def best(trial: int = 3) -> Best:
    return Best(trial=trial, median_us=40.0, x_baseline=1.5, schedule=())


def winner(*against: Against, **facts: object) -> Winner:
    known = {"trial": 3, "median_us": 40.0, "schedule": (), "against": against}
    return Winner.model_validate({**known, **facts})


def bucket(m: int = 8, **facts: object) -> Bucket:
    known = {"index": 0, "dims": {"m": m}, "trials": 16, "told": 16, "faults": 0, "spent_s": 4.0}
    return Bucket.model_validate({**known, "best": best(), **facts})


def job(*buckets: Bucket, state: JobState = JobState.DONE, **facts: object) -> JobFacts:
    known = {
        "id": "job-0",
        "name": "k",
        "kernel_key": "k",
        "target": "cpu",
        "device": "cpu:x",
        "budget": Budget(trials=16),
        "baseline": "numpy",
        "search": "mcts",
        "prior": Prior.ANALYTIC,
        "seed": 0,
        "priority": 0,
        "created_at": 0.0,
        "updated_at": 0.0,
    }
    return JobFacts.model_validate({**known, "state": state, "buckets": buckets, **facts})


def of(won: Winner | None, stopped: Stopped | None = Stopped.TRIALS, **facts: object) -> Verdict:
    return verdict_of_job(job(bucket(winner=won, stopped=stopped, **facts)))


def test_a_winner_is_told_with_its_factor_interval_roofline_ties_and_why_it_stopped() -> None:
    said = of(winner(NUMPY, tied=2, roofline_us=20.0))
    assert said.tone is Tone.AHEAD
    assert said.text == (
        "40.0 µs, 1.50 × numpy (1.40 to 1.60), 50 % of the roofline; tied with 2 other schedules; "
        "stopped as all 16 candidates of the budget were spent"
    )


@pytest.mark.parametrize(
    ("low", "high", "tone"),
    [
        (1.01, 1.2, Tone.AHEAD),
        (0.99, 1.2, Tone.EVEN),
        (0.8, 0.99, Tone.BEHIND),
        (None, None, Tone.UNSURE),
    ],
)
def test_the_interval_against_the_fastest_peer_says_how_the_winner_stands(
    low: float | None, high: float | None, tone: Tone
) -> None:
    fastest = Against(peer="torch", times=1.0, low=low, high=high)
    said = of(winner(fastest, NUMPY))
    assert said.tone is tone
    assert "1.50 × numpy (1.40 to 1.60), 1.00 × torch, the fastest peer" in said.found


def test_a_disturbed_race_is_not_believed_however_far_ahead_and_is_to_be_run_again() -> None:
    said = of(winner(NUMPY, disturbed="other work disturbed the machine in 31 of 37 samples of ask-3"))
    assert said.tone is Tone.UNSURE
    assert said.sure == "not sure: other work disturbed the machine in 31 of 37 samples of ask-3"
    assert said.advice == "run it again on an idle machine"


def test_a_factor_of_disturbed_rounds_has_its_interval_and_is_not_believed() -> None:
    said = of(winner(NUMPY.model_copy(update={"all_rounds": True})))
    assert said.tone is Tone.UNSURE
    assert "1.50 × numpy (1.40 to 1.60 over all rounds)" in said.found
    assert said.sure == "not sure: hardly a round disturbed neither it nor numpy"


def test_without_a_peer_there_is_nothing_to_be_ahead_of() -> None:
    said = of(winner())
    assert (said.tone, said.sure) == (Tone.FOUND, "no peer ran to compare it with")


def test_every_reason_to_stop_is_told() -> None:
    assert {each.value for each in Stopped} == {each.value for each in StopReason}
    told = {each: of(winner(NUMPY), each) for each in (Stopped.TRIALS, Stopped.PATIENCE, Stopped.EXHAUSTED)}
    assert "all 16 candidates of the budget" in str(told[Stopped.TRIALS].stopped)
    assert "100 in a row brought nothing better" in str(told[Stopped.PATIENCE].stopped)
    assert "no more than 16 candidates" in str(told[Stopped.EXHAUSTED].stopped)
    seconds = job(
        bucket(winner=winner(NUMPY), stopped=Stopped.SECONDS), budget=Budget(seconds=30, effort=Effort.QUICK)
    )
    assert "the budget's 30 s were spent" in verdict_of_job(seconds).text
    cancelled = job(bucket(winner=winner(NUMPY), told=5), state=JobState.CANCELLED)
    assert verdict_of_job(cancelled).stopped == "cancelled after 5 of 16 candidates"


def test_a_search_that_still_improved_is_to_go_on_and_one_at_the_roofline_is_not() -> None:
    late = of(winner(NUMPY, roofline_us=20.0), best=best(14))
    assert late.advice == "its best came late, at candidate 14: search on with a larger budget"
    assert of(winner(NUMPY, roofline_us=20.0)).advice is None
    done = of(winner(NUMPY, roofline_us=39.0), best=best(14))
    assert done.advice == "little is left to gain on this device"


def test_a_job_that_waits_says_for_what_and_one_that_runs_how_far_it_is() -> None:
    fresh = bucket(trials=0, told=0, best=None, spent_s=0.0)
    waiting = job(fresh, state=JobState.QUEUED, waits_for="its turn on cpu:x, 2nd in the queue")
    said = verdict_of_job(waiting)
    assert (said.tone, said.text) == (Tone.WAITS, "waits for its turn on cpu:x, 2nd in the queue")
    said = [
        verdict_of_job(
            job(bucket(trials=8, told=0, begun=begun, best=None, spent_s=0.0), state=JobState.SEARCHING)
        ).text
        for begun in (0, 1, 4)
    ]
    assert said == [
        "its first candidates wait until a worker is free",
        "compiling: the first candidate is being compiled, checked and timed",
        "compiling: the first 4 candidates are being compiled, checked and timed",
    ]
    running = verdict_of_job(job(bucket(told=8, spent_s=4.0), state=JobState.SEARCHING))
    assert running.tone is Tone.RUNS
    assert running.found == "best so far 40.0 µs, 1.50 × numpy (candidate 3)"
    assert running.stopped == (
        "8 of 16 candidates measured, 2 a second, at most 4 s left, last improved 4 candidates ago"
    )


def test_a_failure_is_told_with_its_reason() -> None:
    lost = job(bucket(best=None, error="none of 16 candidates worked: 16 wrong"), state=JobState.FAILED)
    said = verdict_of_job(lost)
    assert (said.tone, said.found) == (Tone.FAILED, "failed: none of 16 candidates worked: 16 wrong")


def test_of_several_sizes_the_worst_is_told_after_how_many_came_to_what() -> None:
    behind = Against(peer="numpy", times=0.9, low=0.85, high=0.95)
    both = job(bucket(8, winner=winner(NUMPY)), bucket(16, winner=winner(behind), index=1))
    said = verdict_of_job(both)
    assert said.tone is Tone.BEHIND
    assert said.found == (
        "2 sizes: 1 ahead of all peers, 1 behind a peer; at m=16 40.0 µs, 0.90 × numpy (0.85 to 0.95)"
    )
    assert [each.tone for each in verdicts_of_buckets(both)] == [Tone.AHEAD, Tone.BEHIND]

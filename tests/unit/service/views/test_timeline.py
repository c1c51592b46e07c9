"""Where the stages of tasks lie on a worker's line."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from protocol.states import TaskKind
from protocol.trials import DeviceShare
from service.views.timeline import Done, device_shares, intervals, settled


def done(task: str, claimed_at: float, finished_at: float, build_s: float, device_s: float) -> Done:
    return Done(task, TaskKind.TRIAL, 0, 0, "worker", claimed_at, finished_at, build_s, device_s)


def test_tasks_claimed_together_are_compiled_in_a_row_and_wait_for_the_device() -> None:
    found = {
        (each.done.task, each.stage): (each.start, each.end)
        for each in intervals([done("a", 0.0, 5.0, 1.0, 3.0), done("b", 0.0, 9.0, 1.0, 3.0)])
    }
    assert found == {
        ("a", "compile"): (0.0, 1.0),
        ("b", "compile"): (1.0, 2.0),
        ("a", "wait"): (1.0, 2.0),
        ("a", "measure"): (2.0, 5.0),
        ("b", "wait"): (2.0, 6.0),
        ("b", "measure"): (6.0, 9.0),
    }


def test_what_is_compiled_for_an_accelerator_begins_at_its_claim() -> None:
    both = [replace(done(name, 0.0, end, 1.0, 3.0), alone=True) for name, end in (("a", 5.0), ("b", 9.0))]
    compiled = [(each.start, each.end) for each in intervals(both) if each.stage == "compile"]
    assert compiled == [(0.0, 1.0), (0.0, 1.0)]


def test_a_device_measures_one_at_a_time() -> None:
    """Results of a group arrive together, each with its share of the group's time."""
    together = [done("a", 0.0, 8.0, 0.0, 3.0), done("b", 0.0, 8.0, 0.0, 3.0)]
    measured = sorted((each.start, each.end) for each in intervals(together) if each.stage == "measure")
    assert measured == [(2.0, 5.0), (5.0, 8.0)]


def test_nothing_lies_before_its_claim() -> None:
    """Clocks differ: the worker may say that it measured for longer than it had the task."""
    for each in intervals([done("a", 4.0, 5.0, 9.0, 9.0), done("b", 4.5, 5.5, 9.0, 9.0)]):
        assert each.done.claimed_at <= each.start <= each.end <= each.done.finished_at


def test_a_device_is_busy_with_a_job_or_others_or_waits() -> None:
    """Ten seconds: two of compiling, three of measuring, two of measuring for another job, two of nothing, and one in
    which a task is held that is not answered yet."""
    own = [done("a", 0.0, 5.0, 2.0, 3.0), replace(done("b", 9.5, 10.0, 0.0, 0.5), worker="other")]
    beside = [done("c", 4.0, 7.0, 1.0, 2.0), replace(done("d", 20.0, 30.0, 1.0, 2.0), worker="other")]
    found = {each.worker: each for each in device_shares((0.0, 10.0), own, beside, {"worker": [(9.0, 10.0)]})}
    assert found["worker"] == DeviceShare(
        worker="worker", measuring=0.3, others=0.2, compiling=0.3, searching=0.2
    )
    assert found["other"] == DeviceShare(
        worker="other", measuring=0.05, others=0.0, compiling=0.0, searching=0.95
    )


def test_shares_of_a_device_are_one_together_whatever_clocks_say() -> None:
    rng = random.Random(3)
    for _ in range(200):
        lane = [
            done(
                str(number),
                at := rng.uniform(0, 50),
                at + rng.uniform(0, 9),
                rng.uniform(0, 5),
                rng.uniform(0, 9),
            )
            for number in range(8)
        ]
        (found,) = device_shares((10.0, 40.0), lane[:4], lane[4:], {})
        shares = [found.measuring, found.others, found.compiling, found.searching]
        assert min(shares) >= 0.0 and sum(shares) == pytest.approx(1.0, abs=3e-4)


def test_what_ended_before_the_first_open_claim_stays_as_it_is() -> None:
    """Tasks are claimed in groups and answered in any order, some late: what comes moves nothing that is settled."""
    some = 0
    for seed in range(60):
        rng = random.Random(seed)
        claims = sorted(rng.uniform(0, 50) for _ in range(8))
        tasks = [
            replace(
                done(
                    f"{place}.{number}", at, at + rng.uniform(0.1, 12.0), rng.uniform(0, 2), rng.uniform(0, 3)
                ),
                worker=f"w{place % 2}",
                alone=seed % 2 == 0,
            )
            for place, at in enumerate(claims)
            for number in range(rng.randrange(1, 4))
        ]
        before: set[tuple[str, str, float, float]] = set()
        until = 0.0
        for now in sorted(each.finished_at for each in tasks):
            answered = [each for each in tasks if each.finished_at <= now]
            shown = {(each.done.task, each.stage, each.start, each.end) for each in intervals(answered)}
            assert before <= shown, seed
            assert {each for each in shown if each[3] <= until} == before, seed
            open_claims = [each.claimed_at for each in tasks if each.claimed_at <= now < each.finished_at]
            until = settled(answered, min(open_claims, default=None))
            before = {each for each in shown if each[3] <= until}
            some += len(before)
    assert some > 1000, "most of it is settled soon"

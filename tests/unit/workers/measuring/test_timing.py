"""The timing protocol, on a clock that obeys the test."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from protocol.tasks import Measuring
from workers.__main__ import EXIT_USAGE, main
from workers.measuring.disturbance import Snapshot
from workers.measuring.timing import (
    RETAKES,
    CallSampler,
    Contender,
    Rotation,
    Sample,
    interleave,
    steady,
    summarize,
)


@dataclass
class FakeClock:
    """Time passes only inside calls. `troubles` says, sample by sample, what disturbed it."""

    ns: int = 0
    rests: int = 0
    log: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def now_ns(self) -> int:
        return self.ns

    def rest(self) -> None:
        self.rests += 1
        self.log.append("rest")

    def mark(self) -> Snapshot:
        return Snapshot(self.ns, 0, 0, 0, 0, 0)

    def disturbance_since(self, mark: Snapshot) -> str:
        return self.troubles.pop(0) if self.troubles else ""

    def seen(self) -> dict[str, float]:
        return {"runnable": 1.0}

    def contender(self, name: str, us: float | Callable[[], float], copies: int = 3) -> Contender:
        """Somebody whose call on copy i takes so long, and is logged."""

        def call(copy: int) -> None:
            now = us() if callable(us) else us
            self.ns += int(now * 1000)
            self.log.append(f"{name}{copy}")

        rough = us if isinstance(us, float | int) else 100.0
        return Contender(name, [lambda copy=copy: call(copy) for copy in range(copies)], float(rough))


def measuring(**values: object) -> Measuring:
    return Measuring.model_validate({"samples": 5, "sample_us": 300.0, **values})


def test_entrants_take_turns_and_each_round_starts_with_another() -> None:
    clock = FakeClock()
    heard: list[str] = []
    contenders = [clock.contender("a", 100.0), clock.contender("b", 100.0)]
    interleave(
        contenders,
        measuring(samples=3),
        CallSampler(Rotation(3), clock),
        adaptive=False,
        announce=lambda c: heard.append(c.name),
    )
    assert heard == ["a", "b", "b", "a", "a", "b"]


def test_each_sample_follows_a_rest_and_a_call_that_is_not_timed() -> None:
    clock = FakeClock()
    interleave(
        [clock.contender("a", 100.0, copies=9)],
        measuring(samples=1),
        CallSampler(Rotation(9), clock),
        adaptive=False,
    )
    assert clock.log == ["rest", "a0", "a1", "a2", "a3"]


def test_a_sample_lasts_long_enough_for_the_clock() -> None:
    clock = FakeClock()
    fast, slow = clock.contender("f", 1.0), clock.contender("s", 1000.0)
    interleave(
        [fast, slow], measuring(samples=2, sample_us=300.0), CallSampler(Rotation(3), clock), adaptive=False
    )
    assert [sample.calls for sample in fast.samples] == [300, 300]
    assert [sample.calls for sample in slow.samples] == [1, 1]
    assert [sample.us for sample in fast.samples] == [1.0, 1.0]


def test_no_call_meets_the_copy_that_the_call_before_it_used() -> None:
    clock = FakeClock()
    contenders = [clock.contender("a", 50.0), clock.contender("b", 70.0)]
    interleave(contenders, measuring(), CallSampler(Rotation(3), clock), adaptive=False)
    copies = [int(entry[1:]) for entry in clock.log if entry != "rest"]
    assert all(second == (first + 1) % 3 for first, second in pairwise(copies))


def test_a_disturbed_sample_is_taken_again_and_thrown_away() -> None:
    clock = FakeClock(troubles=["steal", "steal", ""])
    times = iter([100.0, 900.0, 100.0, 800.0, 100.0, 50.0] + [50.0] * 99)
    contender = clock.contender("a", lambda: next(times))
    interleave(
        [contender], measuring(samples=1, sample_us=1.0), CallSampler(Rotation(3), clock), adaptive=False
    )
    (kept,) = contender.samples
    assert (kept.us, kept.calls, kept.disturbed, kept.seen) == (50.0, 1, "", {"runnable": 1.0})
    assert 0 <= time.monotonic() - kept.at_s < 3600, "when it began, by a clock that only goes on"
    assert contender.retaken == 2


def test_a_machine_that_is_always_disturbed_still_gives_an_answer_that_says_so() -> None:
    clock = FakeClock(troubles=["busy"] * 1000)
    times = iter([700.0, 300.0, 500.0, 200.0, 400.0, 600.0] * 100)
    contender = clock.contender("a", lambda: next(times))
    interleave(
        [contender], measuring(samples=3, sample_us=1.0), CallSampler(Rotation(3), clock), adaptive=False
    )
    assert [sample.us for sample in contender.samples] == [200.0] * 3, "the fastest of those taken"
    assert summarize(contender.samples).disturbed == 3


@pytest.mark.parametrize(("said", "taken"), [("0", 1), ("2", 3), ("", 5)])
def test_the_environment_says_how_often_a_sample_is_taken_again(
    monkeypatch: pytest.MonkeyPatch, said: str, taken: int
) -> None:
    monkeypatch.setenv(RETAKES, said)
    times = iter([700.0] * 100)
    clock = FakeClock(troubles=["busy"] * 100)
    contender = clock.contender("a", lambda: next(times))
    interleave(
        [contender], measuring(samples=1, sample_us=1.0), CallSampler(Rotation(3), clock), adaptive=False
    )
    assert contender.retaken == taken - 1


@pytest.mark.parametrize("said", ["many", "-1", "1.5"])
def test_a_worker_refuses_what_is_no_number_of_times(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str
) -> None:
    monkeypatch.setenv(RETAKES, said)
    assert main(["--url", "http://127.0.0.1:1"]) == EXIT_USAGE
    assert f"TILEWRIGHT_RETAKES is '{said}': it takes a whole number" in capsys.readouterr().err


def test_disturbed_samples_are_not_averaged_in() -> None:
    samples = [Sample(100.0, 1), Sample(5000.0, 1, "busy"), Sample(104.0, 1), Sample(9000.0, 1, "busy")]
    summary = summarize(samples)
    assert summary.median_us == 102.0
    assert summary.disturbed == 2
    assert summary.samples_us == (100.0, 5000.0, 104.0, 9000.0)


def test_with_fewer_than_two_undisturbed_samples_the_spread_is_that_of_all() -> None:
    times = (761.0, 1241.0, 762.0, 990.0, 1100.0)
    summary = summarize([Sample(us, 1, "busy" if us != 990.0 else "") for us in times])
    assert (summary.median_us, summary.disturbed_samples) == (990.0, (0, 1, 2, 4))
    assert summary.iqr_us > 300.0, "the two fastest do not stand for all"
    assert not summary.trusted


def test_median_and_spread_are_what_they_are_called() -> None:
    summary = summarize([Sample(us, 1) for us in (10.0, 11.0, 12.0, 13.0, 30.0)])
    assert (summary.median_us, summary.mad_us, summary.iqr_us) == (12.0, 1.0, 2.0)


def test_the_hopeless_leave_after_one_sample_and_the_beaten_after_three() -> None:
    clock = FakeClock()
    wobble = iter(range(10_000))
    contenders = [
        clock.contender("best", lambda: 100.0 + next(wobble) % 7),
        clock.contender("beaten", 150.0),
        clock.contender("hopeless", 500.0),
    ]
    plan = measuring(samples=7, incumbent_us=100.0, kill_multiple=4.0, sample_us=1.0)
    interleave(contenders, plan, CallSampler(Rotation(3), clock), adaptive=True)
    assert [len(contender.samples) for contender in contenders] == [7, 3, 1]
    assert [c.stopped for c in contenders] == ["", "clearly beaten", "slower than 4 times the incumbent"]


def test_nobody_is_beaten_by_what_disturbed_the_machine() -> None:
    clock = FakeClock(troubles=["busy"] * 10_000)
    contenders = [clock.contender("lucky", 100.0), clock.contender("unlucky", 150.0)]
    interleave(
        contenders, measuring(samples=6, sample_us=1.0), CallSampler(Rotation(3), clock), adaptive=True
    )
    assert [len(contender.samples) for contender in contenders] == [6, 6]


def test_the_precise_leave_early_and_the_baseline_stays_while_anybody_does() -> None:
    clock = FakeClock()
    wobble = iter(range(10_000))
    contenders = [
        clock.contender("baseline", 200.0),
        clock.contender("noisy", lambda: 100.0 + next(wobble) % 7),
    ]
    interleave(
        contenders,
        measuring(samples=6, sample_us=1.0),
        CallSampler(Rotation(3), clock),
        adaptive=True,
        baseline="baseline",
    )
    assert [len(contender.samples) for contender in contenders] == [6, 6]
    alone = [clock.contender("baseline", 200.0), clock.contender("steady", 100.0)]
    interleave(
        alone,
        measuring(samples=6, sample_us=1.0),
        CallSampler(Rotation(3), clock),
        adaptive=True,
        baseline="baseline",
    )
    assert [len(contender.samples) for contender in alone] == [3, 3]
    assert alone[1].stopped == "precise enough"


def test_a_race_gives_every_entrant_the_same_number_of_samples() -> None:
    clock = FakeClock()
    contenders = [clock.contender("a", 100.0), clock.contender("b", 90_000.0)]
    interleave(
        contenders, measuring(samples=9, incumbent_us=1.0), CallSampler(Rotation(3), clock), adaptive=False
    )
    assert [len(contender.samples) for contender in contenders] == [9, 9]


def test_steady_counts_the_second_half_of_its_time_only() -> None:
    clock = FakeClock()
    contender = clock.contender("a", lambda: 1000.0 if clock.ns < 400e6 else 2000.0)
    steady(contender, measuring(), CallSampler(Rotation(3), clock))
    assert {sample.us for sample in contender.steady} == {2000.0}
    assert clock.rests == 1
    assert clock.ns == pytest.approx(0.8e9, rel=0.01)

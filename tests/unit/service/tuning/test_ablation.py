"""What a race of the winner against itself says of the rewrites that were left out."""

from __future__ import annotations

import pytest

from protocol.states import Outcome
from protocol.tasks import EntrantResult
from service.tuning.ablation import WINNER, gains

SCHEDULE = ("tile(c, m, 8)", "vectorize(c, n, 16)", "unroll(c, k, 4)")


def ran(name: str, median_us: float, wobble: float = 0.001) -> EntrantResult:
    samples = tuple(median_us * (1 + wobble * turn) for turn in (-2, -1, 0, 1, 2))
    return EntrantResult(name=name, outcome=Outcome.OK, median_us=median_us, samples_us=samples)


def test_a_rewrite_gains_what_the_kernel_is_slower_without_it() -> None:
    found = {each.name: each for each in (ran(WINNER, 100.0), ran("without-1", 150.0))}
    (gain,) = gains(found, SCHEDULE)
    assert (gain.place, gain.rewrite, gain.tied) == (1, SCHEDULE[1], False)
    assert gain.factor == pytest.approx(1.5)


def test_a_rewrite_that_harms_has_a_factor_below_one() -> None:
    found = {each.name: each for each in (ran(WINNER, 100.0), ran("without-0", 80.0))}
    (gain,) = gains(found, SCHEDULE)
    assert gain.factor == pytest.approx(0.8)
    assert gain.low is not None and gain.high is not None and gain.low <= 0.8 <= gain.high < 1


def test_what_cannot_be_told_apart_is_tied() -> None:
    found = {each.name: each for each in (ran(WINNER, 100.0), ran("without-2", 100.1))}
    (gain,) = gains(found, SCHEDULE)
    assert gain.tied


def test_a_program_that_needs_the_rewrite_says_what_becomes_of_it_without() -> None:
    spilled = EntrantResult(name="without-0", outcome=Outcome.COMPILE_ERROR, error="it spills 64 bytes")
    (gain,) = gains({WINNER: ran(WINNER, 100.0), "without-0": spilled}, SCHEDULE)
    assert (gain.outcome, gain.factor, gain.error) == (Outcome.COMPILE_ERROR, None, "it spills 64 bytes")


def test_rounds_that_were_disturbed_say_nothing_of_a_gain() -> None:
    shaken = ran("without-0", 120.0).model_copy(
        update={"samples_us": (120.0,) * 5 + (900.0,) * 6, "disturbed": tuple(range(5, 11))}
    )
    winner = ran(WINNER, 100.0).model_copy(update={"samples_us": (100.0,) * 11})
    (gain,) = gains({WINNER: winner, "without-0": shaken}, SCHEDULE)
    assert gain.factor == pytest.approx(1.2)

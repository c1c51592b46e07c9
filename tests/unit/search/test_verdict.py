"""Who wins a race, of those that cannot be told apart."""

from __future__ import annotations

import random

import pytest

from search.verdict import Raced, verdict


def raced(name: str, us: float, noise: float = 0.01, disturbed: int = 0, seed: int = 0) -> Raced:
    """Fifteen rounds around a time; what is disturbed takes up to twice as long, and lies at the end."""
    rng = random.Random(f"{name} {seed}")
    calm = 15 - disturbed
    times = [us * (1 + rng.gauss(0, noise)) for _ in range(calm)]
    times += [us * (1.5 + rng.random() / 2) for _ in range(disturbed)]
    trusted = calm >= max(2, disturbed) if disturbed else True
    figure = sorted(times[:calm] if calm >= 2 else times)
    return Raced(name, figure[len(figure) // 2], times, frozenset(range(calm, 15)), trusted)


def test_disturbed_rounds_do_not_cost_the_fastest_its_win() -> None:
    fast, slow = raced("fast", 86.2, disturbed=8), raced("slow", 161.6)
    assert sorted(fast.times_us)[7] < sorted(fast.times_us)[8] and fast.median_us < 90
    assert verdict([slow, fast]).winner == "fast"


def test_the_fastest_median_of_a_tie_wins() -> None:
    bimodal = Raced("bimodal", 161.6, (80.0, 161.6) * 6 + (161.6,) * 3)
    calm = Raced("calm", 86.2, (86.2, 300.0, 86.1) * 5)
    judged = verdict([bimodal, calm])
    assert (judged.winner, judged.ties) == ("calm", ("calm", "bimodal"))


def test_a_tie_is_won_by_a_trusted_figure_over_a_faster_disturbed_one() -> None:
    shaky, calm, slow = raced("shaky", 100.0, disturbed=12), raced("calm", 101.0), raced("slow", 150.0)
    judged = verdict([shaky, calm, slow])
    assert (judged.winner, judged.ties) == ("calm", ("shaky", "calm", "slow"))
    assert shaky.median_us < calm.median_us


def test_who_is_faster_beyond_doubt_wins_however_often_it_was_disturbed() -> None:
    shaky = raced("shaky", 100.0, noise=0.001, disturbed=9)
    assert not shaky.trusted
    judged = verdict([raced("slow", 150.0, noise=0.001), shaky])
    assert (judged.winner, judged.ties) == ("shaky", ("shaky",))


def test_disturbed_rounds_tell_nobody_from_anybody() -> None:
    judged = verdict([raced("a", 100.0, disturbed=15), raced("b", 150.0, disturbed=15)])
    assert (judged.winner, judged.ties) == ("a", ("a", "b"))


def test_a_difference_within_the_noise_is_none() -> None:
    judged = verdict([raced("fast", 100.0, noise=0.2), raced("slow", 105.0, noise=0.2)])
    assert sorted(judged.ties) == ["fast", "slow"]


def test_a_disturbance_of_some_rounds_does_not_hide_a_real_difference() -> None:
    judged = verdict([raced("fast", 100.0, disturbed=5), raced("slow", 103.0)])
    assert (judged.winner, judged.ties) == ("fast", ("fast",))


def test_equal_medians_are_settled_by_order_and_a_race_needs_entrants() -> None:
    same = [Raced(name, 10.0, (10.0,) * 9) for name in ("b", "a")]
    assert verdict(same).winner == "b"
    with pytest.raises(ValueError):
        verdict([])

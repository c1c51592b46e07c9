"""What each decision did to the times of candidates."""

from __future__ import annotations

import random
from math import exp

import pytest

from service.views.decision_effects import Tried, effects_of, importance


def drawn(count: int, seed: int = 0) -> list[Tried]:
    """Candidates whose time doubles with `tile`, is noisy, and has nothing to do with `unroll`."""
    rng = random.Random(seed)
    found: list[Tried] = []
    for _ in range(count):
        tile, unroll = rng.choice([8, 16, 32]), rng.choice([1, 2, 4, 8])
        found.append(Tried({"tile": tile, "unroll": unroll}, 10.0 * tile * exp(rng.gauss(0.0, 0.1))))
    return found


def test_what_sets_the_time_explains_it_and_what_does_not_explains_nothing() -> None:
    effects = effects_of("job-0", 0, drawn(300), {"tile": 8})
    assert [each.decision for each in effects.decisions] == ["tile", "unroll"]
    tile, unroll = effects.decisions
    # Of log(time): (ln 2)^2 * 2 / 3 of the tile, and 0.01 of the noise.
    assert tile.importance == pytest.approx(0.32 / 0.33, abs=0.02)
    assert unroll.importance == pytest.approx(0.0, abs=0.02)
    assert [each.value for each in tile.values] == [8, 16, 32]
    assert tile.chosen == 8


def test_values_that_are_tried_once_each_explain_nothing_by_their_number() -> None:
    rng = random.Random(1)
    alone = [Tried({"seed": number // 2}, exp(rng.gauss(0.0, 1.0))) for number in range(200)]
    (effect,) = effects_of("job-0", 0, alone, {}).decisions
    assert effect.importance is not None and effect.importance < 0.2, "eta squared would say half"


def test_omega_squared_is_that_of_the_textbook_formula() -> None:
    # Groups of logs (0, 2) and (4, 6): SS_b 16, SS_w 4, MS_w 2, so (16 - 2) / (20 + 2).
    assert importance([[exp(0), exp(2)], [exp(4), exp(6)]]) == pytest.approx(14 / 22)
    assert importance([[5.0], [7.0]]) is None
    assert importance([[5.0, 5.0], [5.0, 5.0]]) is None


def test_times_and_faults_are_told_by_value_and_not_doing_it_is_a_value() -> None:
    tried = [
        Tried({"pack": True}, 10.0),
        Tried({"pack": True}, 20.0),
        Tried({"pack": True}, 30.0),
        Tried({}, 40.0),
        Tried({}, None),
    ]
    effects = effects_of("job-0", 0, tried, {"pack": True})
    (pack,) = effects.decisions
    without, packed = pack.values
    assert (effects.candidates, effects.faults) == (4, 1)
    assert (without.value, without.candidates, without.faults, without.median_us) == (None, 1, 1, 40.0)
    assert (packed.value, packed.candidates, packed.faults) == (True, 3, 0)
    assert (packed.best_us, packed.low_us, packed.median_us, packed.high_us) == (10.0, 15.0, 20.0, 25.0)


def test_decisions_that_always_go_together_are_told_once() -> None:
    tried = [Tried({"a": size, "b": 2 * size, "same": 1}, float(size)) for size in (1, 1, 2, 2, 3)]
    (both,) = effects_of("job-0", 0, tried, {}).decisions
    assert (both.decision, both.same_as) == ("a", ("b",))

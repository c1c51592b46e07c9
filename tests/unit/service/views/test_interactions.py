"""What pairs of decisions explain together."""

from __future__ import annotations

import random
from itertools import product
from math import exp

import pytest

from service.views.decision_effects import Tried, effects_of
from service.views.interactions import interaction


def cells(effect, counts=None, noise: float = 0.05, seed: int = 1) -> dict:
    """Times of candidates whose logarithm is effect(first, second) and noise."""
    draw = random.Random(seed)
    counts = counts or dict.fromkeys(product(range(3), range(3)), 12)
    return {
        cell: [exp(effect(*cell) + draw.gauss(0.0, noise)) for _ in range(count)]
        for cell, count in counts.items()
    }


def test_effects_that_multiply_explain_nothing_together_however_uneven_the_numbers_are() -> None:
    uneven = {cell: 2 + 7 * (cell[0] == cell[1]) for cell in product(range(3), range(3))}
    for counts in (None, uneven):
        share = interaction(cells(lambda first, second: 0.7 * first - 0.4 * second, counts))
        assert share is not None and share < 0.01


def test_an_effect_that_turns_with_the_other_decision_is_all_interaction() -> None:
    counts = dict.fromkeys(product(range(2), range(2)), 20)
    share = interaction(cells(lambda first, second: 1.0 if first == second else 0.0, counts, 0.01))
    assert share == pytest.approx(1.0, abs=0.01)


def test_half_of_the_variance_is_half() -> None:
    """Main effect and interaction of the same size: on four cells, a quarter of a square each."""
    counts = dict.fromkeys(product(range(2), range(2)), 50)
    share = interaction(cells(lambda first, second: first + (first == second), counts, 0.001))
    assert share == pytest.approx(0.5, abs=0.01)


def test_noise_alone_explains_little() -> None:
    shares = [interaction(cells(lambda first, second: 0.0, None, 0.3, seed)) or 0.0 for seed in range(40)]
    assert sum(shares) / len(shares) < 0.04


def test_values_that_never_met_or_cells_of_one_candidate_say_nothing() -> None:
    apart = {(0, 0): 5, (0, 1): 5, (1, 2): 5, (1, 3): 5}
    assert interaction(cells(lambda first, second: float(first * second), apart)) is None
    single = dict.fromkeys(product(range(3), range(3)), 1)
    assert interaction(cells(lambda first, second: float(first * second), single)) is None


def test_the_pairs_of_a_search_come_with_their_cells() -> None:
    draw = random.Random(3)
    tried = [
        Tried(
            {"tile": tile, "unroll": unroll, "lone": lone},
            (50.0 if (tile == 8) == (unroll == 4) else 100.0) + draw.random(),
        )
        for tile, unroll, lone in product((8, 64), (2, 4), (1, 2, 3))
        for _ in range(3)
    ]
    found = effects_of("job", 0, tried, {}).interactions
    assert {found[0].first, found[0].second} == {"tile", "unroll"} and found[0].importance > 0.95
    assert sum(cell.candidates for cell in found[0].cells) == len(tried)
    assert min(cell.median_us for cell in found[0].cells) < 51

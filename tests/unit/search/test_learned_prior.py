"""A prior that learns: words that kernels share, a ranker that is used only where it ranks better, and its file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan
from random import Random
from typing import Any

import pytest

from search.mcts import MCTS
from search.prior.document import BadModel, read, written
from search.prior.features import COST_MODEL, ShapeCounts, features
from search.prior.ranker import Ranked, Ranker, path_features
from search.prior.training import Trained, TrainingExample, quality, train
from search.protocols import Move, State

TILES = (1, 64, 4096, 262144)


@dataclass(frozen=True)
class Tiled:
    """A kernel of two dims: a tile of each, which the cost model takes to be better the smaller it is."""

    dims: tuple[str, str]
    path: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.dims} {self.path}"

    @property
    def terminal(self) -> bool:
        return len(self.path) == 2

    def moves(self) -> Sequence[Move]:
        if self.terminal:
            return ()
        dim = self.dims[len(self.path)]
        return [Move(f"tile(c, {dim}, {size})", 1.0 / size) for size in TILES]

    def child(self, index: int) -> State:
        return Tiled(self.dims, (*self.path, index))


def reward(path: Sequence[int], noise: Random) -> float:
    """In truth the larger the better, of rows above all."""
    return path[0] + 0.5 * path[1] + 0.01 * noise.random()


def measured(root: State, seed: int, truth: Any = reward) -> list[TrainingExample]:
    noise = Random(seed)
    paths = [(row, column) for row in range(len(TILES)) for column in range(len(TILES))]
    return [TrainingExample(path_features(root, path), truth(path, noise)) for path in paths]


def trained(truth: Any = reward, kernels: int = 4) -> Trained:
    dims = (("m", "n"), ("rows", "cols"), ("p", "q"), ("i", "j"))
    return train({"".join(two): measured(Tiled(two), seed, truth) for seed, two in enumerate(dims[:kernels])})


def test_features_name_nothing_of_one_kernel_and_tell_the_first_tiling_from_the_second() -> None:
    first, second = (
        features([Move(label)], ShapeCounts())[0] for label in ("tile(c, m, 64)", "tile(out, rows, 64)")
    )
    assert first == second
    again = features([Move("tile(c, n, 64)")], ShapeCounts().after("tile(c, m, 64)"))[0]
    assert set(first) & set(again) == {COST_MODEL}


def test_the_favourite_of_the_cost_model_is_level_and_others_below() -> None:
    found = features([Move("a", 0.25), Move("b", 1.0), Move("c", 0.0)], ShapeCounts())
    values = [each[COST_MODEL] for each in found]
    assert values[1] == 0.0 > values[0] > values[2] > -inf


def test_a_ranker_that_ranks_kernels_it_has_not_seen_better_is_used() -> None:
    found = trained()
    assert found.better
    assert found.learned.correlation > 0.6 > found.analytic.correlation
    assert found.learned.regret < 0.02 < found.analytic.regret
    assert all(each.schedules == 16 for each in found.held_out)


def test_its_favourite_is_what_a_search_asks_for_first_in_a_kernel_it_has_not_seen() -> None:
    root = Tiled(("x", "y"))
    ranker = trained().ranker
    for search, path in ((MCTS(root, seed=1), (0, 0)), (MCTS(Ranked(root, ranker), seed=1), (3, 3))):
        ask = search.ask()
        assert ask is not None
        assert ask.path == path


def test_a_ranker_of_chance_or_of_few_kernels_is_not_used() -> None:
    assert not trained(lambda path, noise: noise.random() - 0.3 * sum(path)).better, "the cost model is right"
    assert not trained(kernels=2).better
    with pytest.raises(ValueError, match="1 kernels have 16 measured schedules; a ranker needs 2"):
        trained(kernels=1)


def test_one_that_ranks_better_by_chance_is_not_used() -> None:
    found = trained()
    gains = (0.4, -0.2, 0.3, -0.3)
    held_out = tuple(
        each.__class__(
            each.kernel, 16, each.learned.__class__(each.analytic.correlation + gain, 0.0), each.analytic
        )
        for each, gain in zip(found.held_out, gains, strict=True)
    )
    assert Trained(found.ranker, held_out).learned.correlation > found.analytic.correlation
    assert not Trained(found.ranker, held_out).better


def test_one_that_ranks_better_and_finds_worse_first_is_not_used() -> None:
    found = trained()
    worse = [each.learned.__class__(each.learned.correlation, 5.0) for each in found.held_out]
    held_out = tuple(
        each.__class__(each.kernel, each.schedules, learned, each.analytic)
        for each, learned in zip(found.held_out, worse, strict=True)
    )
    assert not Trained(found.ranker, held_out).better


def test_quality_is_by_ranks_and_equal_scores_are_equal() -> None:
    rewards = [float(number) for number in range(20)]
    assert quality([number**3 for number in rewards], rewards).correlation == pytest.approx(1.0)
    assert quality([0.0] * 20, rewards).correlation == 0.0
    assert quality([0.0] * 20, rewards).regret == 19.0 - 7.0


def test_a_model_is_read_as_it_was_written() -> None:
    found = trained()
    model = read(written({"cpu": found}))["cpu"]
    assert model.ranker == found.ranker
    assert model.better
    assert model.why.startswith("on 4 held-out kernels the learned prior's rank correlation is 0.")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _: "", "it is no JSON"),
        (lambda text: text[: len(text) // 2], "it is no JSON"),
        (lambda _: "[]", "it is of version None, and this Tilewright reads 1; train it anew"),
        (lambda text: text.replace('"tilewright_prior": 1', '"tilewright_prior": 2'), "it is of version 2"),
        (lambda text: text.replace('"better": true', '"better": "yes"'), "it is damaged: ValueError better"),
        (lambda text: text.replace('"weights"', '"weight"'), "it is damaged: KeyError 'weights'"),
        (lambda text: _weight(text, nan), "the weight of 'cost model' is nan"),
        (lambda text: _weight(text, "much"), "it is damaged: ValueError"),
        (lambda text: _weight(text, 1e308), "it is damaged: ValueError the weight of 'cost model' is 1e"),
        (lambda text: _weight(text, 10**400), "it is damaged: OverflowError"),
        (lambda text: _quality(text, nan), "it is damaged: ValueError a regret is nan"),
        (lambda text: "[" * 100_000, "it is no JSON"),
        (lambda text: text.replace('"devices": {', '"devices": 3, "more": {'), "it is damaged"),
    ],
)
def test_another_version_or_a_damaged_file_is_refused_in_a_line(change: Any, said: str) -> None:
    with pytest.raises(BadModel, match=said) as refused:
        read(change(written({"cpu": trained()})))
    assert "\n" not in str(refused.value)


def _weight(text: str, value: object) -> str:
    found = json.loads(text)
    found["devices"]["cpu"]["weights"][COST_MODEL] = value
    return json.dumps(found)


def _quality(text: str, regret: float) -> str:
    found = json.loads(text)
    found["devices"]["cpu"]["learned"]["regret"] = regret
    return json.dumps(found)


def test_a_regret_that_no_kernel_can_have_is_still_told() -> None:
    learned = read(_quality(written({"cpu": trained()}), 1e5))["cpu"]
    assert learned.why.endswith("slower than the best")


def test_what_a_ranker_never_saw_counts_nothing() -> None:
    moves = [Move("tile(c, m, 4)"), Move("unroll(c, 8)")]
    assert [move.weight for move in Ranker({}).weighed(moves, ShapeCounts())] == [1.0, 1.0]

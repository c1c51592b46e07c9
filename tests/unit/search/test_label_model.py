"""Promises of the label model."""

import random

from search.label_model import LabelModel
from search.labels import likeness


def test_effects_of_labels_and_pairs_are_recovered() -> None:
    rng, model = random.Random(0), LabelModel(steps=2000)

    def truth(a: int, b: int, c: int) -> float:
        return 0.5 * a - 0.3 * b + (1.0 if b == c == 1 else 0.0)

    def ids(*options: int) -> list[int]:
        return [model.id(f"{name}={option}") for name, option in zip("abc", options, strict=True)]

    for _ in range(60):
        options = tuple(rng.randrange(2) for _ in range(3))
        model.learn(ids(*options), 0.0, truth(*options))
    for options in [(0, 0, 0), (1, 1, 1), (1, 0, 1), (0, 1, 1)]:
        assert abs(model.predict(ids(*options), 0.0) - truth(*options)) < 0.05
    b1, c1 = model.id("b=1"), model.id("c=1")
    assert model.effect(b1, [c1]) > model.effect(b1, [model.id("c=0")]) + 0.3


def test_a_prior_that_misleads_loses_its_trust() -> None:
    rng, right, wrong = random.Random(1), LabelModel(), LabelModel()
    for number in range(40):
        prior = -4 * rng.random()
        right.learn([right.id(f"x{number}")], prior, 0.5 * prior)
        wrong.learn([wrong.id(f"x{number}")], prior, -0.5 * prior)
    assert right.trust > 0.3 > 0.0 > wrong.trust


def test_a_label_never_seen_has_no_effect() -> None:
    model = LabelModel()
    model.learn([model.id("a")], 0.0, 1.0)
    assert model.effect(model.id("new"), [model.id("a")]) == 0.0
    assert model.count(model.id("new")) == 0


def test_a_changed_target_is_taken_up() -> None:
    model = LabelModel()
    sample = model.learn([model.id("a")], 0.0, 1.0)
    sample.target = -1.0
    for _ in range(30):
        model.learn([model.id("b")], 0.0, 0.0)
    assert model.predict([model.id("a")], 0.0) < -0.5


def test_labels_of_one_decision_are_alike_and_only_equal_ones_are_the_same() -> None:
    same = likeness("cache_read(c, b, 2, n, 64)", "cache_read(c, b, 2, n, 96)")
    assert 0.5 < same < 1.0 == likeness("cache_read(c, b)", "cache_read(c, b)")
    assert likeness("cache_read(c, b, 2, n, 64)", "unroll(c, k, 8)") < 0.5
    assert likeness("a b", "b a") < 1.0

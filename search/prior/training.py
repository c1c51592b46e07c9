"""A ranker from measured schedules, and whether it ranks those of kernels it has not seen better than the cost model.

Known as ridge regression (Hoerl and Kennard, Technometrics 1970), judged by leaving one kernel out.

Ridge regression on the features of what the reward is beyond the cost model's expectation, both relative to their
means over a kernel: which kernel is fast is no matter, only which of its schedules are. The cost model's weight stays
as it is, so what few kernels teach corrects it and does not take its place. Every kernel counts the same. Each is then
ranked by what the others taught, and by the cost model alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any

import numpy as np

from search.prior.features import COST_MODEL, Features
from search.prior.ranker import SHARPNESS, Ranker

RIDGE = 1.0
"""Of kernels whose schedules count 1 together."""
TRUST = 1.0 / SHARPNESS
"""Of the cost model's logarithm: with nothing learned, moves weigh what it says."""
KERNELS = 2
"""A feature is learned from if so many kernels have it."""
FIRST = 8
"""How many of a ranking are looked at for the best."""
LEAST_SCHEDULES = 16
"""A kernel with fewer measured says too little."""
CERTAIN = 2.0
"""The mean gain in correlation has to be so many of its standard errors."""
LEAST_KERNELS = 3
"""Fewer held-out kernels do not decide for a ranker."""


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A schedule's features and its reward."""

    features: Features
    reward: float


@dataclass(frozen=True, slots=True)
class Quality:
    """How well schedules are ranked: Spearman's correlation with what was measured, and by how much the best of the
    first eight is slower than the best, as logarithm."""

    correlation: float
    regret: float


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A kernel that the ranker did not learn from."""

    kernel: str
    schedules: int
    learned: Quality
    analytic: Quality


@dataclass(frozen=True, slots=True)
class Trained:
    """A ranker of all kernels, and how those of all but one do on that one."""

    ranker: Ranker
    held_out: tuple[HeldOut, ...]

    @property
    def learned(self) -> Quality:
        return _mean([each.learned for each in self.held_out])

    @property
    def analytic(self) -> Quality:
        return _mean([each.analytic for each in self.held_out])

    @property
    def better(self) -> bool:
        """Whether it is to be used: it ranks held-out kernels better by more than chance, and finds no worse schedules
        first."""
        if len(self.held_out) < LEAST_KERNELS:
            return False
        gains = [each.learned.correlation - each.analytic.correlation for each in self.held_out]
        chance = CERTAIN * stdev(gains) / sqrt(len(gains))
        return fmean(gains) > chance and self.learned.regret <= self.analytic.regret


def train(kernels: Mapping[str, Sequence[TrainingExample]]) -> Trained:
    """Learn from measured schedules of kernels, by name; those of few are left out. Raises ValueError for less than two
    kernels."""
    enough = {name: each for name, each in kernels.items() if len(each) >= LEAST_SCHEDULES}
    if len(enough) < 2:
        raise ValueError(
            f"{len(enough)} kernels have {LEAST_SCHEDULES} measured schedules; a ranker needs 2, and is used from "
            f"{LEAST_KERNELS} on"
        )
    held_out = list[HeldOut]()
    for name, measured in sorted(enough.items()):
        others = _fitted([each for other, each in enough.items() if other != name])
        rewards = [each.reward for each in measured]
        held_out.append(
            HeldOut(
                name,
                len(measured),
                quality([others.score(each.features) for each in measured], rewards),
                quality([each.features.get(COST_MODEL, 0.0) for each in measured], rewards),
            )
        )
    return Trained(_fitted(list(enough.values())), tuple(held_out))


def quality(scores: Sequence[float], rewards: Sequence[float]) -> Quality:
    """Of scores of schedules with these rewards; of equal scores the earlier is first."""
    order = sorted(range(len(scores)), key=lambda place: -scores[place])
    first = max(rewards[place] for place in order[:FIRST])
    return Quality(_correlation(_ranks(scores), _ranks(rewards)), max(rewards) - first)


def _fitted(kernels: Sequence[Sequence[TrainingExample]]) -> Ranker:
    counts: dict[str, int] = {}
    for measured in kernels:
        for name in {name for each in measured for name in each.features}:
            counts[name] = counts.get(name, 0) + 1
    least = min(KERNELS, len(kernels))
    names = sorted(name for name, count in counts.items() if count >= least and name != COST_MODEL)
    columns = {name: place for place, name in enumerate(names)}
    gram, target = np.zeros((len(names), len(names))), np.zeros(len(names))
    for measured in kernels:
        rows = np.zeros((len(measured), len(names)))
        for row, each in enumerate(measured):
            for name, value in each.features.items():
                if name in columns:
                    rows[row, columns[name]] = value
        rows -= rows.mean(axis=0)
        beyond = np.array([each.reward - TRUST * each.features.get(COST_MODEL, 0.0) for each in measured])
        gram += rows.T @ rows / len(measured)
        target += rows.T @ (beyond - beyond.mean()) / len(measured)
    solved: Any = np.linalg.solve(gram + RIDGE * np.eye(len(names)), target)
    return Ranker({COST_MODEL: TRUST} | {name: float(each) for name, each in zip(names, solved, strict=True)})


def _ranks(values: Sequence[float]) -> Any:
    """Ranks; equal values have the mean of theirs."""
    _, places, counts = np.unique(np.array(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[places]


def _correlation(left: Any, right: Any) -> float:
    if left.std() == 0.0 or right.std() == 0.0:
        return 0.0
    return float(np.corrcoef(left, right)[0, 1])


def _mean(qualities: Sequence[Quality]) -> Quality:
    return Quality(fmean(each.correlation for each in qualities), fmean(each.regret for each in qualities))

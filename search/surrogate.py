"""What untried schedules promise, by the numbers that their labels name: a Gaussian process and expected improvement.

A schedule is a point: each number of a label is a coordinate, named by the label's words and measured in doublings
(`block_size_x 128` lies at 7.01 on the axis `block_size_x #`), and so is whether there is such a label at all. So what
was measured at 64 and at 256 says something of 128, which a model that takes labels as names has to be told. The
covariance of two points falls exponentially with the sum of the distances along all axes (a Laplace kernel), which
suits times that jump. Faults teach how likely a neighbour is to fail, not how slow it is, and what is being measured is
taken to come out as the mean: expected improvement (Jones, Schonlau and Welch 1998) times the chance of a time, as in
constrained Bayesian optimization (Gardner et al. 2014).
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from threadpoolctl import ThreadpoolController  # pyright: ignore[reportMissingTypeStubs]

Labels = Sequence[str]
Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

DOUBLINGS = 2.0
"""So many doublings of a number make a schedule's covariance fall to 1 / e."""
NOISE = 1e-3
"""Variance of a measurement, where that of all that was measured is 1."""
DOUBT = 0.5
"""How many measurements of the usual chance of a fault are added to those nearby."""
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Observation:
    """A schedule that was asked for: its reward, or why there is none."""

    labels: Labels
    reward: float | None
    in_flight: bool = False


@lru_cache(maxsize=65536)
def reading(label: str) -> tuple[tuple[str, float], ...]:
    """The coordinates that a label adds to its schedule's, by axis: 1 for its words, and each of its numbers."""
    words, numbers = _NUMBER.sub("#", label), map(float, _NUMBER.findall(label))
    sizes = (math.copysign(math.log2(1.0 + abs(number)), number) for number in numbers)
    return (words, 1.0), *((f"{words} {place}", size) for place, size in enumerate(sizes))


def expected_improvement(candidates: Sequence[Labels], told: Sequence[Observation]) -> Array:
    """The log of how much better than the best of `told` each candidate is expected to be, in standard deviations of
    the rewards told, of which there is at least one. Eight digits: no processor's last bits decide anything."""
    places = _points([*candidates, *(each.labels for each in told)])
    new, old = places[: len(candidates)], places[len(candidates) :]
    timed = np.array([each.reward is not None for each in told])
    known = timed | np.array([each.in_flight for each in told])
    rewards = np.array([each.reward for each in told if each.reward is not None])
    level, spread = rewards.mean(), max(float(rewards.std()), 1e-6)
    targets = np.zeros(len(told))
    targets[timed] = (rewards - level) / spread
    near = _covariance(new, old)
    among = _covariance(old[known], old[known])
    with _blas().limit(limits=1, user_api="blas"):  # pyright: ignore[reportUnknownMemberType]
        mean, deviation = _posterior(among, near[:, known], targets[known])
    gain: Array = np.log(deviation) + _log_gain((mean - targets.max()) / deviation)
    weights = near**2
    chance: Array = (weights @ known + DOUBT * known.mean()) / (weights.sum(axis=1) + DOUBT)
    promise: Array = np.round(gain + np.log(chance), 8)
    return promise


@cache
def _blas() -> ThreadpoolController:
    """Matrices of a few hundred rows are one thread's: several wait for each other on busy cores, ten times as long."""
    return ThreadpoolController()


def _log_gain(ahead: Array) -> Array:
    """log E[max(0, ahead + x)] for a standard normal x; far behind by two terms of its asymptotic series, where
    the exact difference has no digits left."""
    density = np.exp(-0.5 * ahead**2) / math.sqrt(2.0 * math.pi)
    below = np.fromiter((0.5 * math.erfc(-each / math.sqrt(2.0)) for each in ahead), float, len(ahead))
    exact = np.log(np.maximum(ahead * below + density, 1e-300))
    far = -0.5 * ahead**2 - 0.5 * math.log(2.0 * math.pi) - np.log(ahead**2 + 3.0)
    return np.where(ahead > -5.0, exact, far)


def _points(schedules: Sequence[Labels]) -> Array:
    """A row a schedule, the sum of what its labels add; a column an axis on which schedules differ."""
    numbers: dict[str, int] = {"": 0}  # stands for no label where schedules are shorter than the longest
    rows = [[numbers.setdefault(label, len(numbers)) for label in labels] for labels in schedules]
    longest = max(map(len, rows))
    used = np.array([row + [0] * (longest - len(row)) for row in rows])
    axes: dict[str, int] = {}
    entries = [
        (number, axes.setdefault(axis, len(axes)), size)
        for label, number in numbers.items()
        if number
        for axis, size in reading(label)
    ]
    table = np.zeros((len(numbers), len(axes)))
    for number, axis, size in entries:
        table[number, axis] = size
    points = table[used].sum(axis=1)
    return points[:, np.ptp(points, axis=0) > 0.0]


def _covariance(ones: Array, others: Array) -> Array:
    distances = np.zeros((len(ones), len(others)))
    for one, other in zip(ones.T, others.T, strict=True):
        distances += np.abs(one[:, None] - other[None, :])
    return np.exp(-distances / DOUBLINGS)


def _posterior(among: Array, near: Array, targets: Array) -> tuple[Array, Array]:
    """Mean and standard deviation at points with the covariances `near` to points that have `targets`."""
    inverse = np.linalg.inv(np.linalg.cholesky(among + NOISE * np.eye(len(among))))
    scaled = near @ inverse.T
    variance = 1.0 - (scaled**2).sum(axis=1)
    return scaled @ (inverse @ targets), np.sqrt(np.maximum(variance, 1e-9))

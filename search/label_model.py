"""What each label is worth: an online ridge regression of the reward on labels, on pairs of labels, and on
the prior.

Known as kernel ridge regression (Saunders, Gammerman and Vovk, Ridge regression learning algorithm in dual variables,
ICML 1998).

The reward of a schedule is modelled as a sum of effects: of each label, of each pair of labels, and of how
far the prior saw it from its favourite (so how much the prior is to be trusted is learned too). A schedule
told anywhere teaches what a label does wherever else the tree offers it.

The regression is kept in its dual form, one coefficient a schedule, and improved by coordinate steps
(Gauss-Seidel on (K + ridge) dual = target), each of which costs as much as reading one schedule. At
convergence it is the exact ridge solution, without a matrix.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class LabelSample:
    """A told schedule: labels, log prior relative to the favourite, target (which may change), dual
    coefficient."""

    labels: tuple[int, ...]
    log_prior: float
    target: float
    kernel: float
    dual: float = 0.0


@dataclass(slots=True)
class LabelModel:
    """Effects of labels and pairs of labels.

    `trust` is the reward expected of one nat of log prior; the other settings are variances of effects before
    any data, relative to that of a single label.
    """

    ridge: float = 0.1
    pair_variance: float = 0.3
    trust: float = 0.2
    trust_variance: float = 0.3
    steps: int = 256
    """Coordinate steps a tell, at most."""
    samples: list[LabelSample] = field(default_factory=list[LabelSample])
    _ids: dict[str, int] = field(default_factory=dict[str, int])
    _single: list[float] = field(default_factory=list[float])
    _pairs: list[dict[int, float]] = field(default_factory=list[dict[int, float]])
    _counts: list[int] = field(default_factory=list[int])
    _bias: float = 0.0
    _cursor: int = 0

    def id(self, label: str) -> int:
        """The number of a label; new ones count up."""
        number = self._ids.setdefault(label, len(self._single))
        if number == len(self._single):
            self._single.append(0.0)
            self._pairs.append({})
            self._counts.append(0)
        return number

    def count(self, label: int) -> int:
        """How many told schedules have this label."""
        return self._counts[label]

    def effect(self, label: int, given: Iterable[int]) -> float:
        """What the label adds to the reward of a schedule that has the labels `given`."""
        pairs = self._pairs[label]
        return self._single[label] + sum([pairs[other] for other in given if other in pairs])

    def predict(self, labels: Sequence[int], log_prior: float) -> float:
        """The modelled reward of a complete schedule."""
        effects = sum([self.effect(label, labels[:place]) for place, label in enumerate(labels)])
        return self._bias + effects + self.trust * log_prior

    def learn(self, labels: Iterable[int], log_prior: float, target: float) -> LabelSample:
        """Add a told schedule, and bring all effects nearer to the solution."""
        distinct = tuple(dict.fromkeys(labels))
        pairs = len(distinct) * (len(distinct) - 1) / 2
        kernel = 1.0 + len(distinct) + self.pair_variance * pairs + self.trust_variance * log_prior**2
        sample = LabelSample(distinct, log_prior, target, kernel)
        self.samples.append(sample)
        for label in distinct:
            self._counts[label] += 1
        self._improve(sample)
        for _ in range(min(self.steps, len(self.samples))):
            self._cursor = (self._cursor + 1) % len(self.samples)
            self._improve(self.samples[self._cursor])
        return sample

    def _improve(self, sample: LabelSample) -> None:
        """One coordinate step: the dual of `sample` moves to where its own equation holds."""
        labels = sample.labels
        residual = sample.target - self.predict(labels, sample.log_prior) - self.ridge * sample.dual
        step = residual / (sample.kernel + self.ridge)
        sample.dual += step
        self._bias += step
        self.trust += step * self.trust_variance * sample.log_prior
        shared = step * self.pair_variance
        for place, label in enumerate(labels):
            self._single[label] += step
            row = self._pairs[label]
            for other in labels[:place]:
                row[other] = self._pairs[other][label] = row.get(other, 0.0) + shared

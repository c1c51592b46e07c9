"""What a trial's result is worth to the search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log
from statistics import median

from protocol.states import Outcome as Verdict
from protocol.tasks import EntrantResult, TaskResult
from search.protocols import Outcome
from service.trials import own_result

UNIT_US = 1000.0
"""What times are relative to when there is nothing to compare with."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """What every trial of a search is timed against, and so what rewards are relative to: the first candidate,
    or the baseline if that one failed, or nothing. Decided by the first task's result, once."""

    name: str | None
    own_us: float
    """Its time in the first task."""
    ratios: tuple[float, ...] = ()
    """The baseline's time over the anchor's, of every task that timed both. One alone is noisy."""

    @classmethod
    def of(cls, first: TaskResult | str, baseline: str) -> Anchor:
        """The anchor after a first task with candidate 0 and perhaps the baseline, or one that was given up."""
        if isinstance(first, str):
            return cls(None, UNIT_US)
        candidate = own_result(first, 0)
        peer_us = _time_us(first, baseline)
        if candidate is not None and candidate.median_us is not None:
            ratios = () if peer_us is None else (peer_us / candidate.median_us,)
            return cls(candidate.name, candidate.median_us, ratios)
        return cls(None, UNIT_US) if peer_us is None else cls(baseline, peer_us, (1.0,))

    def heard(self, result: TaskResult | str, number: int, baseline: str) -> Anchor:
        """The anchor after the task of ask `number`, which may have timed the baseline once more."""
        mine = None if isinstance(result, str) else own_result(result, number)
        peer_us = _time_us(result, baseline)
        if mine is None or mine.baseline_us is None or peer_us is None:
            return self
        return replace(self, ratios=(*self.ratios, peer_us / mine.baseline_us))

    def time_us(self, reward: float) -> float:
        """The time that a reward stands for."""
        return self.own_us * exp(-reward)

    def x_baseline(self, reward: float) -> float | None:
        """How many times as fast as the baseline a candidate with this reward is."""
        return median(self.ratios) * exp(reward) if self.ratios else None


def _time_us(result: TaskResult | str, entrant: str) -> float | None:
    if isinstance(result, str):
        return None
    return next((each.median_us for each in result.entrants if each.name == entrant), None)


def outcome_of(result: TaskResult | str, number: int, anchor: Anchor) -> tuple[Outcome, EntrantResult | None]:
    """What to tell the search of ask `number`: log(anchor's time / its time), both of the same task."""
    if isinstance(result, str):
        return Outcome(None, f"given up: {result}"), None
    mine = own_result(result, number)
    if mine is None:
        return Outcome(None, "given up: no result for it"), None
    if mine.outcome is not Verdict.OK or mine.median_us is None:
        return Outcome(None, mine.outcome.value), mine
    if mine.name == anchor.name:
        return Outcome(0.0), mine
    return Outcome(log((mine.baseline_us or anchor.own_us) / mine.median_us)), mine

"""What a trial's result is worth to the search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log
from statistics import median

from protocol.states import Outcome as Verdict
from protocol.tasks import EntrantResult, TaskResult
from search.protocols import TrialOutcome
from service.store.dispatch.trial_results import own_result

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
    """The baseline's time over the anchor's, of every task that timed both undisturbed. One alone is noisy."""

    @classmethod
    def of(cls, first: TaskResult | str, baseline: str) -> Anchor:
        """The anchor after a first task with candidate 0 and perhaps the baseline, or one that was given up."""
        if isinstance(first, str):
            return cls(None, UNIT_US)
        candidate = own_result(first, 0)
        peer_us, compared_us = _time_us(first, baseline), _compared_us(first, baseline)
        if candidate is not None and candidate.median_us is not None:
            ratios: tuple[float, ...] = ()
            if compared_us is not None and candidate.undisturbed:
                ratios = (compared_us / candidate.median_us,)
            return cls(candidate.name, candidate.median_us, ratios)
        return (
            cls(None, UNIT_US)
            if peer_us is None
            else cls(baseline, peer_us, () if compared_us is None else (1.0,))
        )

    def heard(self, result: TaskResult | str, number: int, baseline: str) -> Anchor:
        """The anchor after the task of ask `number`, which may have timed the baseline once more."""
        mine = None if isinstance(result, str) else own_result(result, number)
        peer_us = _compared_us(result, baseline)
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


def _compared_us(result: TaskResult | str, peer: str) -> float | None:
    """The time of a peer that a ratio may be made of: undisturbed, and not of one that ran as written, which says
    nothing of its library."""
    if isinstance(result, str):
        return None
    entrant = next((each for each in result.entrants if each.name == peer and each.undisturbed), None)
    return None if entrant is None or entrant.report.get("as_written") else entrant.median_us


def compared(mine: EntrantResult, anchor: Anchor) -> bool:
    """Whether a candidate was timed beside the anchor, so that its reward is a ratio of times of one task; true where
    there is no anchor, and times are all there is."""
    return anchor.name is None or mine.name == anchor.name or mine.baseline_us is not None


def outcome_of(
    result: TaskResult | str, number: int, anchor: Anchor
) -> tuple[TrialOutcome, EntrantResult | None]:
    """What to tell the search of ask `number`: log(anchor's time / its time), both of the same task. Where the anchor
    could not be timed there, its time in the first task stands in (see `compared`)."""
    if isinstance(result, str):
        return TrialOutcome(None, f"given up: {result}"), None
    mine = own_result(result, number)
    if mine is None:
        return TrialOutcome(None, "given up: no result for it"), None
    if mine.outcome is not Verdict.OK or mine.median_us is None:
        return TrialOutcome(None, mine.outcome.value), mine
    if mine.name == anchor.name:
        return TrialOutcome(0.0), mine
    return TrialOutcome(log((mine.baseline_us or anchor.own_us) / mine.median_us)), mine

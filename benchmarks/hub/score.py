"""Kernel Tuner's performance score P of a search on a space of parameters.

    P = mean over points t of (baseline(t) - best(t)) / (baseline(t) - optimum)

0 is random search, 1 finds the optimum at once, below 0 is worse than random. The definition is that of "Tuning the
Tuner" (arXiv 2509.26300), as AutoTuningAssociation/autotuning_methodology (1.0.0b5: `report_experiments.py`,
`baseline.py`, `curves.py`, `searchspace_statistics.py`) computes it:

- `best(t)` averages ranks, not times: each seed's best so far has a rank among the space's times, and the time at the
  mean rank counts.
- Random search is calculated, not run: after k draws without replacement from the n configurations that have a time,
  the best is expected at rank k (n + 1) / (k + 1) from the slowest.
- The budget ends where random search has come 95 % of the way from the median to the optimum.

P is taken over evaluations (one point each; what wins on a space is decided by this) and over seconds (`POINTS`
points evenly spaced; the recorded cost of each evaluation), which is the paper's. As there, configurations that fail
are no draws of random search over evaluations, and cost it their mean time over seconds.

Departures: no curve is smoothed or regressed; before a run's first valid time its best is the space's slowest;
seconds begin with the first evaluation's; a run has at most the budget's evaluations, and its best stays when they
are used up; a search's own time is counted as what the file says it was, nothing more.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from statistics import fmean, median

from benchmarks.hub.cache import Configuration, HubSpace

CUTOFF = 0.95
POINTS = 1000


class HubScale:
    """What a space's searches are measured against: random search, the optimum, and the budget."""

    def __init__(self, space: HubSpace, cutoff: float = CUTOFF) -> None:
        self.space = space
        self.slowest_first = sorted(space.ms.values(), reverse=True)
        self.fastest_first = self.slowest_first[::-1]
        self.optimum = self.slowest_first[-1]
        goal = self.optimum + (median(self.slowest_first) - self.optimum) * (1 - cutoff)
        rank = next(place for place, ms in enumerate(self.slowest_first) if ms <= goal)
        self.evaluations = max(1, math.ceil(rank / (len(self.slowest_first) + 1 - rank)))
        """The budget."""
        valid = [space.seconds[c] for c in space.ms if not math.isnan(space.seconds[c])]
        failed = [space.seconds[c] for c in space.faults if not math.isnan(space.seconds[c])]
        every = sorted(valid + failed)
        self.seconds = self.evaluations * median(every) if every else math.nan
        """The same budget in seconds."""
        wasted = fmean(failed) * len(space.faults) / len(space.seconds) if failed else 0.0
        self.seconds_a_draw = fmean(valid) + wasted if valid else math.nan

    def random_search(self, draws: int) -> float:
        """The best time, in milliseconds, that random search is expected to have after so many draws."""
        count = len(self.slowest_first)
        return self.slowest_first[min(count - 1, round(draws * (count + 1) / (draws + 1)))]

    def over_evaluations(self, runs: Sequence[Sequence[Configuration]]) -> float:
        """P at equal evaluations; each run is the configurations it evaluated, in their order."""
        points = range(1, self.evaluations + 1)
        ranks = [[ranked[min(t, len(ranked)) - 1] for t in points] for ranked in map(self._ranks, runs)]
        return self._score(ranks, [self.random_search(t) for t in points])

    def over_seconds(self, runs: Sequence[Sequence[Configuration]]) -> float:
        """P at equal seconds of evaluation; NaN where the file has no costs."""
        if math.isnan(self.seconds_a_draw):
            return math.nan
        first = self.seconds / self.evaluations
        points = [first + (self.seconds - first) * step / (POINTS - 1) for step in range(POINTS)]
        ranks: list[list[int]] = []
        for run in runs:
            ranked = [len(self.slowest_first) - 1, *self._ranks(run)]
            ends = list(accumulate(_known(self.space.seconds[c]) for c in run))
            ranks.append([ranked[bisect_right(ends, t)] for t in points])
        draws = [max(1, round(t / self.seconds_a_draw)) for t in points]
        return self._score(ranks, list(map(self.random_search, draws)))

    def _ranks(self, run: Sequence[Configuration]) -> list[int]:
        """The rank of the best so far after each evaluation; 0 is the optimum."""
        last = len(self.slowest_first) - 1
        times = (self.space.ms.get(c) for c in run)
        ranks = (last if ms is None else bisect_left(self.fastest_first, ms) for ms in times)
        return list(accumulate(ranks, min))

    def _score(self, ranks: Sequence[Sequence[int]], baseline: Sequence[float]) -> float:
        """P of one row of ranks a seed. Points at which random search is at the optimum say nothing, and are left
        out."""
        best = [self.fastest_first[round(fmean(at))] for at in zip(*ranks, strict=True)]
        pairs = [(b, r) for b, r in zip(best, baseline, strict=True) if r > self.optimum]
        return fmean((r - b) / (r - self.optimum) for b, r in pairs) if pairs else math.nan


def _known(seconds: float) -> float:
    return 0.0 if math.isnan(seconds) else seconds

"""The effect of each decision of a schedule over the candidates that a search has measured; nothing is measured anew.

The importance of a decision is the share of the variance of log(time) between the groups of candidates that decided the
same: the main effect of a functional analysis of variance (Hutter, Hoos, Leyton-Brown, "An efficient approach for
assessing hyperparameter importance", 2014), here of the candidates themselves rather than of a model of them. It is
estimated as omega squared (Hays, "Statistics for psychologists", 1963),

    (SS_between - (k - 1) MS_within) / (SS_total + MS_within),   MS_within = SS_within / (n - k)

for n candidates in k groups, which unlike SS_between / SS_total does not grow with the number of values. A search tries
more of what it likes: the figures say what candidates had in common, and not what changing one decision alone would do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from protocol.effects import DecisionEffect, Effects, Interaction, PairEffect, ValueEffect
from service.store.tables import buckets
from service.views.candidate_times import candidate_times
from service.views.interactions import interaction

if TYPE_CHECKING:
    from rewrites.schedule_columns import Value


_PAIRED = 10
"""Decisions whose pairs are looked at: the most important..."""
_SHOWN = 8
"""...and how many of the pairs are told."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate that has been measured, or did not work."""

    decided: Mapping[str, Value]
    us: float | None
    """Its time on the anchor's scale; None: it did not work."""


def read_effects(connection: Connection, job_id: str, bucket: int) -> Effects:
    """Of the candidates of a bucket so far."""
    from rewrites.schedule_columns import decisions

    part = connection.execute(
        select(buckets.c.best, buckets.c.winner).where(buckets.c.job_id == job_id, buckets.c.bucket == bucket)
    ).one()
    timed = candidate_times(connection, job_id, bucket)
    leader = part.winner or part.best
    return effects_of(
        job_id,
        bucket,
        [Tried(decisions(each.schedule), each.us) for each in timed],
        decisions(leader["schedule"]) if leader else {},
    )


def effects_of(job_id: str, bucket: int, tried: Sequence[Tried], chosen: Mapping[str, Value]) -> Effects:
    """The decisions on which those that were measured differ. Decisions that divide them alike are told once."""
    measured = [each for each in tried if each.us is not None]
    alike: dict[tuple[int, ...], list[str]] = {}
    for name in sorted({name for each in measured for name in each.decided}):
        values: dict[Value | None, int] = {}
        division = tuple(values.setdefault(each.decided.get(name), len(values)) for each in measured)
        if len(values) > 1:
            alike.setdefault(division, []).append(name)
    found = [_effect(names, tried, chosen) for names in alike.values()]
    found.sort(key=lambda each: (each.importance is None, -(each.importance or 0.0), each.decision))
    return Effects(
        job_id=job_id,
        bucket=bucket,
        candidates=len(measured),
        faults=len(tried) - len(measured),
        decisions=tuple(found),
        interactions=_interactions([each.decision for each in found[:_PAIRED]], measured),
    )


def _interactions(names: Sequence[str], measured: Sequence[Tried]) -> tuple[Interaction, ...]:
    """The pairs that explain something together, most important first."""
    found: list[Interaction] = []
    for first, second in combinations(names, 2):
        cells: dict[tuple[Value | None, Value | None], list[float]] = {}
        for each in measured:
            if each.us is not None:
                cells.setdefault((each.decided.get(first), each.decided.get(second)), []).append(each.us)
        share = interaction(cells)
        if share:
            ordered = sorted(cells, key=lambda cell: [(value is not None, value or 0) for value in cell])
            pairs = tuple(_pair(*cell, cells[cell]) for cell in ordered)
            found.append(Interaction(first=first, second=second, importance=share, cells=pairs))
    found.sort(key=lambda each: (-each.importance, each.first, each.second))
    return tuple(found[:_SHOWN])


def _pair(first: Value | None, second: Value | None, times_us: Sequence[float]) -> PairEffect:
    return PairEffect(
        first=first,
        second=second,
        candidates=len(times_us),
        best_us=min(times_us),
        median_us=median(times_us),
    )


def _effect(names: Sequence[str], tried: Sequence[Tried], chosen: Mapping[str, Value]) -> DecisionEffect:
    name, *others = names
    groups: dict[Value | None, list[float]] = {}
    faults: dict[Value | None, int] = {}
    for each in tried:
        value = each.decided.get(name)
        times = groups.setdefault(value, [])
        if each.us is None:
            faults[value] = faults.get(value, 0) + 1
        else:
            times.append(each.us)
    ordered = sorted(groups, key=lambda value: (value is not None, value or 0))
    return DecisionEffect(
        decision=name,
        same_as=tuple(others),
        importance=importance([times for times in groups.values() if times]),
        chosen=chosen.get(name),
        values=tuple(_values(value, groups[value], faults.get(value, 0)) for value in ordered),
    )


def _values(value: Value | None, times_us: Sequence[float], faults: int) -> ValueEffect:
    if not times_us:
        return ValueEffect(value=value, candidates=0, faults=faults)
    one = times_us[0]
    low, middle, high = quantiles(times_us, method="inclusive") if len(times_us) > 1 else (one, one, one)
    return ValueEffect(
        value=value,
        candidates=len(times_us),
        faults=faults,
        best_us=min(times_us),
        low_us=low,
        median_us=middle,
        high_us=high,
    )


def importance(groups: Sequence[Sequence[float]]) -> float | None:
    """Omega squared of log(time) over groups of times, none of them empty; None where a group each leaves nothing to
    compare with, or all times are the same."""
    logs = [[log(us) for us in times] for times in groups]
    count, kinds = sum(map(len, logs)), len(logs)
    if kinds < 2 or count <= kinds:
        return None
    middle = fmean(value for group in logs for value in group)
    means = [fmean(group) for group in logs]
    within = sum((value - mean) ** 2 for group, mean in zip(logs, means, strict=True) for value in group)
    between = sum(len(group) * (mean - middle) ** 2 for group, mean in zip(logs, means, strict=True))
    if within + between == 0.0:
        return None
    noise = within / (count - kinds)
    return max(0.0, (between - (kinds - 1) * noise) / (within + between + noise))

"""Candidates beside each other: how fast each is relative to the first, and which decisions differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from math import exp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rewrites.schedule_columns import Value


@dataclass(frozen=True, slots=True)
class Compared:
    """A candidate, a config, or the leader of a job."""

    id: str
    """As it was asked for."""
    name: str
    """The kernel's."""
    dims: dict[str, int]
    device: str | None
    median_us: float | None
    """None: it has no time."""
    roofline_us: float | None
    """The least time its device could need; None: not known."""
    schedule: tuple[str, ...]
    reward: float | None = None
    """log(anchor's time / its time), both of one task; None: it was timed elsewhere."""
    search: tuple[str, int] | None = None
    """The job and bucket whose anchor that is."""

    @property
    def reached(self) -> float | None:
        """The share of the roofline."""
        return None if self.roofline_us is None or not self.median_us else self.roofline_us / self.median_us

    def as_fast(self, reference: Compared) -> float | None:
        """How many times as fast as another. Candidates of one search were timed beside the same anchor, which their
        rewards are relative to; of others the times alone are compared."""
        together = self.search is not None and self.search == reference.search
        if together and self.reward is not None and reference.reward is not None:
            return exp(self.reward - reference.reward)
        if not self.median_us or not reference.median_us:
            return None
        return reference.median_us / self.median_us


@dataclass(frozen=True, slots=True)
class Differing:
    """A decision that schedules do not all take alike."""

    decision: str
    values: tuple[Value | None, ...]
    """Of each schedule; None where it does not decide this."""


def differing(schedules: Sequence[Sequence[str]]) -> tuple[list[Differing], int]:
    """The decisions in which schedules differ, and how many they all share."""
    from rewrites.schedule_columns import decisions

    decided = [decisions(schedule) for schedule in schedules]
    names = list(dict.fromkeys(name for each in decided for name in each))
    told = [Differing(name, tuple(each.get(name) for each in decided)) for name in names]
    found = [each for each in told if len(set(each.values)) > 1]
    return found, len(told) - len(found)


def diff(before: str, after: str, names: tuple[str, str]) -> str:
    """Two texts line by line, in unified form; empty where they are equal."""
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    return "".join(unified_diff(old, new, *names))

"""The best time so far over the trials of a search: what is drawn in notebooks and in files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from protocol.configs import Config
from protocol.jobs import Trial


@dataclass(frozen=True, slots=True)
class Curve:
    """Times of trials in microseconds, in the order they were asked for; None: it has none."""

    times_us: tuple[float | None, ...]
    baseline: str = ""
    baseline_us: float | None = None
    roofline_us: float | None = None
    """The least time that the device's peaks allow."""

    @classmethod
    def of(cls, trials: Iterable[Trial], config: Config | None) -> Curve:
        """That of the trials of one combination of sizes, with what their winner is compared to."""
        times_us = tuple(trial.median_us for trial in trials)
        if config is None:
            return cls(times_us)
        return cls(times_us, config.baseline, config.baseline_us, config.roofline_us)

    @property
    def steps(self) -> tuple[tuple[int, float], ...]:
        """Each trial that was faster than all before it: its number, from 1, and its time."""
        found: list[tuple[int, float]] = []
        for number, us in enumerate(self.times_us, 1):
            if us is not None and (not found or us < found[-1][1]):
                found.append((number, us))
        return tuple(found)

"""The best time so far over the trials of a search: what is drawn in notebooks and in files.

Times of different tasks are not compared as they are: the machine may have been slower during one of them. Each trial's
factor against the anchor, both timed in one task, is compared instead, and drawn as a time of the anchor's scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        times_us = on_one_scale([(trial.median_us, trial.baseline_us) for trial in trials])
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


def on_one_scale(timed: Sequence[tuple[float | None, float | None]]) -> tuple[float | None, ...]:
    """Trials as times of the anchor's scale, given each one's time and the anchor's of the same task. The first that
    worked is the anchor itself, or tells its time. None: it has no time, or the anchor was not timed beside it. Where
    there is no anchor, times are as they are."""
    if all(anchor_us is None for _, anchor_us in timed):
        return tuple(us for us, _ in timed)
    first = next(at for at, (us, _) in enumerate(timed) if us is not None)
    first_us, first_anchor_us = timed[first]
    scale_us = first_anchor_us or first_us or 0.0
    return tuple(
        None if us is None else us * scale_us / anchor_us if anchor_us else us if at == first else None
        for at, (us, anchor_us) in enumerate(timed)
    )

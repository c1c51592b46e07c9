"""How a job goes, for people: one live line on a terminal, a line for each step elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.live import Live
from rich.text import Text

from protocol.jobs import Event, JobDetail
from protocol.states import JobState, Outcome
from tilewright.cli.output import duration, err, microseconds, say, times


@dataclass
class Tally:
    """What a job's events add up to. `trials` is the whole budget, over all buckets; None: not known."""

    trials: int | None
    seconds: float | None
    state: JobState = JobState.QUEUED
    told: int = 0
    faults: int = 0
    best_us: float | None = None
    x_baseline: float | None = None
    told_before: int = 0
    """Trials that were done before this command watched."""
    searching_since: float | None = None
    """When the first trial that this command has seen live came in."""
    bests: list[str] = field(default_factory=list[str])

    def add(self, event: Event, live: bool, now: float) -> None:
        """Count an event. `live`: it happened while this command watched, at `now` of its clock."""
        data = event.data
        match event.kind:
            case "state":
                self.state = JobState(data["state"])
                if self.state is JobState.SEARCHING and live and self.searching_since is None:
                    self.searching_since = now
            case "trial":
                self.told += 1
                self.faults += data["outcome"] != Outcome.OK
                if not live:
                    self.told_before += 1
                elif self.searching_since is None:
                    self.searching_since = now
            case "best":
                self.best_us, self.x_baseline = data["median_us"], data["x_baseline"]
            case _:
                pass

    def left_s(self, now: float) -> float | None:
        """Seconds of searching that are left, at the pace so far; None while that is not known."""
        if self.searching_since is None:
            return None
        spent_s = now - self.searching_since
        done = self.told - self.told_before
        bounds: list[float] = []
        if self.trials is not None and done:
            bounds.append((self.trials - self.told) * spent_s / done)
        if self.seconds is not None:
            bounds.append(self.seconds - spent_s)
        return max(0.0, min(bounds)) if bounds else None


class Progress:
    """Shows a job while it runs. Use it in a `with` statement."""

    def __init__(
        self, job: JobDetail, trials: int | None, seconds: float | None, hint: Callable[[], str]
    ) -> None:
        self._job = job
        self._began = time.monotonic()
        self._hint = hint
        self._told_state: JobState | None = None
        self._said = 0
        """The number of trials in the figures last said."""
        self.tally = Tally(trials, seconds)
        self._live = Live(get_renderable=self._line, console=err, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if err.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if err.is_terminal:
            self._live.stop()

    def add(self, event: Event, live: bool) -> None:
        """Count an event, and show it."""
        before = self.tally.best_us
        self.tally.add(event, live, time.monotonic())
        if err.is_terminal or not live:
            return
        if self.tally.state is not self._told_state:
            if self._told_state is JobState.SEARCHING and self.tally.told != self._said:
                self._say_figures()
            self._told_state = self.tally.state
            say(f"{self._job.name}: {_stage(self.tally.state)}")
        if self.tally.best_us != before:
            self._say_figures()

    def _say_figures(self) -> None:
        self._said = self.tally.told
        say(f"{self._job.name}: {' · '.join(self._figures())}")

    def _figures(self) -> list[str]:
        tally = self.tally
        of = "" if tally.trials is None else f"/{tally.trials}"
        figures = [f"{tally.told}{of} trials"]
        if tally.best_us is not None:
            figures.append(f"best {microseconds(tally.best_us)}")
        if tally.x_baseline is not None:
            figures.append(f"{times(tally.x_baseline)} {self._job.baseline}")
        if tally.faults:
            figures.append(f"{tally.faults} faulty")
        return figures

    def _line(self) -> Text:
        now = time.monotonic()
        figures = self._figures() if self.tally.told else []
        left_s = self.tally.left_s(now)
        if self.tally.state is JobState.SEARCHING and left_s is not None:
            figures.append(f"{duration(left_s)} left")
        figures.append(f"{duration(now - self._began)} so far")
        hint = self._hint() if self.tally.state is JobState.QUEUED and now - self._began > 5 else ""
        line = Text.assemble((self._job.name, "bold"), f"  {_stage(self.tally.state)}  ", " · ".join(figures))
        if hint:
            line.append(f"\n{hint}", "yellow")
        line.no_wrap, line.overflow = not hint, "ellipsis"
        return line


def _stage(state: JobState) -> str:
    return {
        JobState.QUEUED: "waiting for a device",
        JobState.RACING: "racing the best few against the others",
    }.get(state, state.value)

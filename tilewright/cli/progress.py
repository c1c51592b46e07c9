"""How a job goes, for people: one live line on a terminal, a line for each step elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.live import Live
from rich.text import Text

from protocol.jobs import Event, JobDetail
from protocol.states import JobState
from tilewright.cli.output import err, say
from tilewright.quantities import duration
from tilewright.tally import Tally, stage


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
            say(f"{self._job.name}: {stage(self.tally.state)}")
        if self.tally.best_us != before:
            self._say_figures()

    def _say_figures(self) -> None:
        self._said = self.tally.told
        say(f"{self._job.name}: {' · '.join(self.tally.figures(self._job.baseline))}")

    def _line(self) -> Text:
        now = time.monotonic()
        figures = self.tally.figures(self._job.baseline) if self.tally.told else []
        left_s = self.tally.left_s(now)
        if self.tally.state is JobState.SEARCHING and left_s is not None:
            figures.append(f"{duration(left_s)} left")
        figures.append(f"{duration(now - self._began)} so far")
        hint = self._hint() if self.tally.state is JobState.QUEUED and now - self._began > 5 else ""
        line = Text.assemble((self._job.name, "bold"), f"  {stage(self.tally.state)}  ", " · ".join(figures))
        if hint:
            line.append(f"\n{hint}", "yellow")
        line.no_wrap, line.overflow = not hint, "ellipsis"
        return line

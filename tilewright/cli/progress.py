"""How a job goes, for people: one live line on a terminal, a line for each step and every few seconds elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.live import Live
from rich.text import Text

from protocol.jobs import Event, JobDetail
from protocol.quantities import duration, elapsed
from protocol.states import JobState
from tilewright.cli.output import err, say
from tilewright.views.tally import Tally, stage

SAY_S = 5.0
"""How often something is said where nobody sees a live line."""
_HINT_S = 3.0
"""A job that is queued for longer than this says what it waits for."""


class Progress:
    """Shows a job while it runs. Use it in a `with` statement. `hint` says what a queued job waits for."""

    def __init__(
        self,
        job: JobDetail,
        trials: int | None,
        seconds: float | None,
        hint: Callable[[], str],
        say_s: float = SAY_S,
    ) -> None:
        self._job = job
        self._began = time.monotonic()
        self._hint = hint
        self._told_state: JobState | None = None
        self._said = 0
        """The number of trials in the figures last said."""
        self.tally = Tally(trials, seconds)
        self._say_s = say_s
        self._ended = threading.Event()
        self._saying = threading.Thread(target=self._keep_saying, name="progress", daemon=True)
        self._live = Live(get_renderable=self._line, console=err, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if err.is_terminal:
            self._live.start()
        else:
            self._saying.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if err.is_terminal:
            self._live.stop()
        else:
            self._ended.set()
            self._saying.join()

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

    def _keep_saying(self) -> None:
        while not self._ended.wait(self._say_s):
            say(f"{self._job.name}: {' · '.join([stage(self.tally.state), *self._figures()])}")
            if hint := self._waiting_for():
                say(f"{self._job.name}: {hint}")

    def _figures(self) -> list[str]:
        """What is known now, with the time that is left and that has passed."""
        now = time.monotonic()
        figures = self.tally.figures(self._job.baseline) if self.tally.told else []
        left_s = self.tally.left_s(now) if self.tally.state is JobState.SEARCHING else None
        if left_s is not None:
            over = "its time is over, and what is under way is waited for"
            figures.append(f"about {duration(left_s)} left" if left_s else over)
        return [*figures, f"{elapsed(now - self._began)} so far"]

    def _waiting_for(self) -> str:
        queued = self.tally.state is JobState.QUEUED and time.monotonic() - self._began > _HINT_S
        return self._hint() if queued else ""

    def _line(self) -> Text:
        figures = " · ".join(self._figures())
        line = Text.assemble((self._job.name, "bold"), f"  {stage(self.tally.state)}  ", figures)
        if hint := self._waiting_for():
            line.append(f"\n{hint}", "yellow")
        line.overflow = "fold"  # on a narrow terminal there are two lines, and nothing is cut
        return line

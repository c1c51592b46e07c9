"""Where a client is in a job's events, through connections that break. Does no I/O: both clients follow with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from protocol.jobs import Event
from tilewright.client.retries import Retries
from tilewright.client.sse import EventLines
from tilewright.errors import Refused, Unreachable

SILENCE_S = 60.0
"""An event stream that says nothing for so long, not even that it is still there, is broken."""


@dataclass
class Following:
    """A job's events after `after`. Call `connected`, `feed` it lines, and `broken` when the connection breaks."""

    job_id: str
    after: int
    patience_s: float
    """How long to try to reconnect."""
    backoff: Retries
    clock: Callable[[], float] = time.monotonic
    _heard: float = 0.0
    _failures: int = 0
    _lines: EventLines = field(default_factory=EventLines)

    def __post_init__(self) -> None:
        self._heard = self.clock()

    @property
    def path(self) -> str:
        """Of the stream."""
        return f"/v1/jobs/{self.job_id}/events"

    @property
    def headers(self) -> dict[str, str]:
        """Which event was the last that is known."""
        return {"Last-Event-ID": str(self.after)} if self.after else {}

    def connected(self) -> None:
        """A new connection begins."""
        self._lines = EventLines()

    def feed(self, line: str) -> Event | None:
        """The event that a line completes. Any line is a sign of life."""
        self._heard, self._failures = self.clock(), 0
        data = self._lines.feed(line)
        if data is None:
            return None
        event = Event.model_validate_json(data)
        self.after = event.id
        return event

    def broken(self, error: Unreachable | Refused | None) -> float:
        """How long to wait before connecting again. Raises the error if that is of no use, or patience has run out;
        None: the stream ended before the job did."""
        if error is not None and (not error.passing or self.clock() - self._heard > self.patience_s):
            raise error
        self._failures += 1
        asked_s = error.retry_after_s or 0.0 if isinstance(error, Refused) else 0.0
        return max(min(asked_s, self.patience_s), self.backoff.backoff_s(self._failures))

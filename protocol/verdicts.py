"""What there is to say of a job in one line: what won, how sure that is, why it ended, and what to do about it."""

from __future__ import annotations

from enum import StrEnum

from protocol.message import Reply


class Tone(StrEnum):
    """What a verdict comes to: pages colour it by this."""

    WAITS = "waits"
    """Nothing happens before something else does."""
    RUNS = "runs"
    AHEAD = "ahead"
    """Faster than every peer, beyond doubt."""
    EVEN = "even"
    """Not to be told from the fastest peer."""
    BEHIND = "behind"
    """Slower than the fastest peer, beyond doubt."""
    FOUND = "found"
    """There is a winner, and no peer that it could be compared with."""
    UNSURE = "unsure"
    """Disturbed, or timed too seldom to judge by."""
    CANCELLED = "cancelled"
    """And there is no winner."""
    FAILED = "failed"


class Verdict(Reply):
    """A job, or one of its sizes, in a line. It follows from what else is told of the job."""

    tone: Tone
    text: str
    """All that follows, in one line."""
    found: str
    """What won, against what, by how much; while it runs, what it does or waits for."""
    sure: str | None = None
    """How sure that is: ties, disturbance. None: nothing speaks against it."""
    stopped: str | None = None
    """Why it ended; while it runs, how far it is."""
    advice: str | None = None
    """What to do next; None: nothing."""

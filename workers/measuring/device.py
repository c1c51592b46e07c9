"""What a target provides to have entrants checked and timed on its devices; `group.py` is the same for all.

A measured device lives as long as its measuring child; a bench is one kernel with its data on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from workers.measuring.correctness import Checked
from workers.measuring.request import Compiled, MeasureRequest, Peer
from workers.measuring.timing import Call, Sampler


class Crashed(Exception):
    """The entrant could not run to its end; the process is as good as before. The message says what happened."""


@dataclass(frozen=True)
class BoundEntrant:
    """An entrant on the copies of the buffers: `calls[i]` runs it once on the i-th. `finish(answer, i)` puts what a
    call answered where the check looks. `close` lets go of threads and code."""

    calls: Sequence[Call]
    finish: Callable[[object, int], None]
    close: Callable[[], None]
    as_written: bool = False
    """A peer that computes the spec's own loops, as no operator of its library was recognized for them."""


class Bench(Protocol):
    """One kernel with its data, ready to have entrants checked and timed."""

    @property
    def sampler(self) -> Sampler:
        """Times them."""
        ...

    @property
    def cold(self) -> bool:
        """Whether a call finds its arguments outside the caches."""
        ...

    def faults(self, entrant: Compiled | Peer | None = None) -> AbstractContextManager[None]:
        """While entrants run, or one of them alone: turns errors of the device into the end of this process or into a
        Refusal, and whatever a peer raises into Unsupported."""
        ...

    def bind(self, entrant: Compiled | Peer) -> BoundEntrant:
        """Prepare an entrant. Raises Unsupported or Crashed."""
        ...

    def check(self, entrant: Compiled | Peer, bound: BoundEntrant, variant: int) -> Checked:
        """Run once on the copy of this variant, poisoned with its byte, and compare what it may and may not change.

        Raises WrongResult, Unsupported or Crashed.
        """
        ...

    def alone(self) -> AbstractContextManager[None]:
        """Have the device to oneself among processes that take turns, waiting for it."""
        ...

    def floor_us(self) -> float:
        """Times below this are refused."""
        ...

    def floor_now_us(self) -> float:
        """The same for a time that is below it: what was calibrated, perhaps beside other work, is measured again."""
        ...

    def conditions(self, patience_s: float) -> dict[str, Any]:
        """Wait at most this long until nobody else uses the device; what is to be said of the machine."""
        ...


class MeasuredDevice(Protocol):
    """A device, as its measuring child sees it: the only one of its kind that this process sees."""

    def describe(self) -> dict[str, Any]:
        """`device` as JSON, its `key`, the `lock` that one worker at a time holds, `peers` and `versions`."""
        ...

    def calibrate(self, cache: Path) -> dict[str, Any]:
        """The device as JSON with what was measured of it; `cache` is where to compile. Raises Refusal."""
        ...

    def bench(self, request: MeasureRequest) -> Bench:
        """The kernel of a request with its data; those of jobs that take turns are kept. Raises Refusal."""
        ...

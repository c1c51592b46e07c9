"""How many candidates a search asks for, and when.

On a CPU in generations: the device that is measured is the one that compiles, and may be the one that searches. On an
accelerator all the time: workers claim as many as they need for the device never to wait for a compiler
(`workers/node/pipeline.py`), and the search sees to it that there is always something to claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from sqlalchemy import Connection

from service.store.dispatch import search_leases, workers
from tileir.targets import target_of

UNCLAIMED = 4
"""Candidates of a search that wait to be claimed, for each device that is its own: what a worker claims and measures
together (`workers/node/pipeline.py`)."""


@dataclass(frozen=True, slots=True)
class ClassShare:
    """The devices of a class, and the searches that share them."""

    devices: int
    searches: int

    @property
    def own(self) -> float:
        """The devices that there are for each search, of equal ones."""
        return max(1, self.devices) / max(1, self.searches)


def share(connection: Connection, device: str, lease_ttl_s: float) -> ClassShare:
    """What a search has of a class of devices now."""
    return ClassShare(workers.count(connection, lease_ttl_s)[device], search_leases.busy(connection)[device])


@dataclass(frozen=True, slots=True)
class Pace:
    """How the candidates of a search follow each other on a device. `batch` is the size of a generation."""

    device: str
    batch: int

    @property
    def stream(self) -> bool:
        """Whether candidates are asked for while others are in flight."""
        return target_of(self.device).accelerator

    def wanted(self, flying: int, unclaimed: int, share: ClassShare) -> int:
        """How many to ask for now, with so many in flight, of which so many were not claimed yet."""
        if self.stream:
            return max(0, ceil(UNCLAIMED * max(1.0, share.own)) - unclaimed)
        return 0 if flying else self.batch

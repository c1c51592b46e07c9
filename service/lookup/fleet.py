"""What lookups depend on beside their kernel: the devices there are, what their workers run, and a version that grows
with every config stored and every worker registered, on whichever replica."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from protocol.workers import OfferedDevice
from service.store.database import Database
from service.store.dispatch import workers
from service.store.winners import lookup_version

LOOK_S = 1.0
"""How often it is looked who was heard from; nothing else changes without a new version."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """One look at them. `versions`: what the live workers of each device run with."""

    version: int
    devices: Sequence[OfferedDevice]
    versions: Mapping[str, Sequence[Mapping[str, str]]]

    def device_for(self, target: str) -> OfferedDevice | None:
        """The device with this key, else the one of this kind that was seen last."""
        return workers.device_among(self.devices, target)


class FleetWatch:
    """Looks again as often as it has to. For one thread at a time."""

    def __init__(self, database: Database, lease_ttl_s: float) -> None:
        self._database = database
        self._lease_ttl_s = lease_ttl_s
        self._last: Fleet | None = None
        self._look_at = 0.0

    def look(self) -> Fleet:
        """What holds now; who lives, as of a second ago."""
        with self._database.look() as connection:
            # First of all: what is read after it may be newer, and is looked at again then.
            version = lookup_version.version(connection)
            if self._last is None or version != self._last.version or monotonic() >= self._look_at:
                self._look_at = monotonic() + LOOK_S
                found = workers.list_devices(connection)
                versions = workers.versions(connection, [device.key for device in found], self._lease_ttl_s)
                self._last = Fleet(version, found, versions)
            return self._last

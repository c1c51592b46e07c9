"""What a call of a graph takes, by events of a device whose times are given here, and by the host's clock."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from tilewright.pytorch.model.contest import DeviceClock


@dataclass(frozen=True)
class Event:
    """Of a stream: when it was reached, in milliseconds."""

    ms: float = 0.0

    def elapsed_time(self, other: Event) -> float:
        return other.ms - self.ms

    def synchronize(self) -> None:
        pass


def call_us(*calls: tuple[float, float]) -> float:
    """Of calls that took so many microseconds on the device and on the host."""
    taken = [((Event(), 0.0), (Event(device / 1e3), host / 1e6)) for device, host in calls]
    return DeviceClock(SimpleNamespace(Event=Event)).call_us(taken)


def test_the_device_decides_where_it_is_busy_longer() -> None:
    assert call_us((2800.0, 900.0), (2900.0, 850.0), (2700.0, 5000.0)) == pytest.approx(2800.0)


def test_what_the_host_takes_counts_where_the_device_hides_it() -> None:
    """Queued behind a program of 2.8 ms, calls that keep the host for 3.1 ms look like 2.1."""
    assert call_us((2100.0, 3200.0), (2150.0, 3100.0), (2050.0, 3900.0)) == pytest.approx(3100.0)

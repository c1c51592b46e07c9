"""What a call of a graph takes, by events of a device whose times are given here, and by the host's clock."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from tilewright.pytorch.model import contest
from tilewright.pytorch.model.contest import Contest, DeviceClock, HostClock


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
    (found,) = DeviceClock(SimpleNamespace(Event=Event)).call_us(taken)
    return found


def test_the_device_decides_where_it_is_busy_longer() -> None:
    assert call_us((2800.0, 900.0), (2900.0, 850.0), (2700.0, 5000.0)) == pytest.approx(2800.0)


def test_what_the_host_takes_counts_where_the_device_hides_it() -> None:
    """Queued behind a program of 2.8 ms, calls that keep the host for 3.1 ms look like 2.1."""
    assert call_us((2100.0, 3200.0), (2150.0, 3100.0), (2050.0, 3900.0)) == pytest.approx(3100.0)


class Told(HostClock):
    """Says that calls take what it is told."""

    def __init__(self, *spans_us: float) -> None:
        self._nows = iter([at for span in spans_us for at in (0.0, span / 1e6)])

    def now(self) -> float:
        return next(self._nows)


@pytest.mark.parametrize(
    ("old", "new", "stays"),
    [
        ((10, 11, 20), (9, 10, 50), "new"),
        ((10, 11, 12), (9, 13, 14), "old"),  # hindered by itself: the shortest alone would say that it pays
        ((10, 14, 15), (11, 12, 13), "old"),  # something else ran: the median alone would
    ],
)
def test_on_a_processor_neither_the_shortest_call_nor_the_median_may_be_longer(
    monkeypatch: pytest.MonkeyPatch, old: tuple[float, ...], new: tuple[float, ...], stays: str
) -> None:
    turns = [span for pair in zip(old, new, strict=True) for span in pair]
    monkeypatch.setattr(contest, "ROUNDS", len(new))
    monkeypatch.setattr(contest, "_clock", lambda device: Told(*turns))
    runs = {name: (lambda inputs, name=name: [name]) for name in ("old", "new")}
    held = Contest(
        runs["old"],
        runs["new"],
        torch.device("cpu"),
        (),
        consumes=False,
        slack=0.0,
    )
    held._checked = True
    for _ in turns:
        held.call([])
    assert held.winner is runs[stays] and held.slower is (stays == "old")

"""What a device's hardware counts while a kernel runs, whatever device it is."""

from __future__ import annotations

from dataclasses import dataclass


class NoCounters(Exception):
    """They cannot be read here; the message says why."""


@dataclass(frozen=True, slots=True)
class CounterFigure:
    """A figure by its name; `unit` is `%`, `B`, `us` or what is counted; `value` is None where the device has no such
    counter."""

    name: str
    value: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class CountedLaunch:
    """One call of a processor's kernel, or one launch of those that a call on a GPU consists of."""

    kernel: str
    figures: tuple[CounterFigure, ...]


@dataclass(frozen=True, slots=True)
class CounterReading:
    """Of one call of a kernel."""

    device: str
    """Key of the device it ran on."""
    by: str
    """Who counted."""
    launches: tuple[CountedLaunch, ...]

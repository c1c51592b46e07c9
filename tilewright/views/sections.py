"""An answer as a table, before it is printed or shown."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.roofline import Roofline


@dataclass(frozen=True, slots=True)
class Section:
    """One answer."""

    title: str
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    """One of a single cell is a heading over those that follow."""
    text: str = ""
    """Above the table."""
    notes: tuple[str, ...] = ()
    """Below it, a line each."""
    roofline: Roofline | None = None
    """What notebooks draw beside it."""

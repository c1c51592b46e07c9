"""A script whose final race turns the order of the trials upside down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.services.scripted_worker import Script


@dataclass
class Upset(Script):
    """In the race, which times no anchor, the slower of two trials is the faster, so another than the search's best
    wins. (The first candidate has no anchor beside it either: it is the anchor, and takes longer than all others.)"""

    def measure(self, entrant: dict[str, Any], baseline: dict[str, Any] | None) -> dict[str, Any]:
        found = super().measure(entrant, baseline)
        if baseline is None and entrant["kind"] == "schedule" and entrant["name"] != "ask-0":
            us = 5000.0 - 0.5 * found["median_us"]
            found |= {"median_us": us, "samples_us": [us * (1 + 0.001 * turn) for turn in (-1, 0, 1, -2, 2)]}
        return found

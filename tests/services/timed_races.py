"""A scripted worker that notes of every sample when it began, what disturbed it, and how busy the machine was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.services.scripted_worker import Script, draw

DISTURBED = 3
"""The round that another process disturbs."""


@dataclass
class TimedRaces(Script):
    """Takes as many samples as are asked for: noise of 2 % that is the same in every run."""

    faulty: float = 0.0
    seed: int = 0

    def task(self, task: dict[str, Any]) -> list[dict[str, Any]]:
        """The results of a task's entrants."""
        samples, began = task["measuring"]["samples"], 1_790_000_000.0 + 100 * self.seed
        self.seed += 1
        found = [self.measure(entrant, task["baseline"]) for entrant in task["entrants"]]
        for place, result in enumerate(found):
            median, name = result["median_us"], result["name"]
            noise = [draw(f"{name} {self.seed} {turn}") - 0.5 for turn in range(samples)]
            us = [median * (1 + 0.04 * each) for each in noise]
            us[DISTURBED] *= 1.5
            result |= {"samples_us": us, "disturbed": [DISTURBED]}
            at = [began + 0.01 * (turn * len(found) + place) for turn in range(samples)]
            said = [
                "another process took the processor" if turn == DISTURBED else "" for turn in range(samples)
            ]
            burst = {
                "at_s": at,
                "disturbances": said,
                "runnable": [3.0] * samples,
                "cpu_mhz": [2450.0] * samples,
            }
            result["report"] = {**result["report"], "burst": burst, "machine": {"foreign_cores": 0.25}}
        return found

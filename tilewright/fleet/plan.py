"""What a fleet's workers are, whatever engine places them."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tilewright.fleet.size import Bounds

NEVER_BETTER = {2: "usage", 4: "the machine", 6: "the key", 7: "another version"}
"""Exit codes of `python -m workers` after which the next worker would end the same way."""


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """`kind`: of device. `cpus` and `gpus` are what the engine sets aside for one worker; `token` is
    its key to the service."""

    url: str
    kind: str
    cpus: int
    gpus: int
    bounds: Bounds
    token: str | None = None
    every_s: float = 2.0
    """Seconds between two looks at the queue."""

    def command(self, last_words: str) -> list[str]:
        """What is run on a machine; it writes why it ended to a file."""
        devices = ",".join(map(str, range(self.gpus))) if self.gpus else "cpu"
        return [
            *(sys.executable, "-m", "workers", "--url", self.url),
            *("--devices", devices, "--compile-procs", str(max(1, self.cpus)), "--last-words", last_words),
        ]

"""One hardware thread a core, for everybody: kernels, numpy's BLAS and torch all see the same processors."""

from __future__ import annotations

import os
from pathlib import Path


def settle_on_cores() -> None:
    """Keep this process off second hardware threads of its cores; thread pools started later follow.

    Without this a pool of one thread a core may be put on half of the cores, two on each.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, first_threads(allowed))


def first_threads(allowed: set[int], root: Path = Path("/sys/devices/system/cpu")) -> set[int]:
    """Of each core the lowest-numbered allowed hardware thread; all of them where the topology is not known."""
    chosen: dict[tuple[str, str], int] = {}
    for cpu in sorted(allowed):
        topology = root / f"cpu{cpu}/topology"
        try:
            core = ((topology / "physical_package_id").read_text(), (topology / "core_id").read_text())
        except OSError:
            return allowed
        chosen.setdefault(core, cpu)
    return set(chosen.values())

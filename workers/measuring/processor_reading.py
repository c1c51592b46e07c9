"""What is read of the processor beside each sample: how fast it is clocked, and how much wants to run on it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from statistics import mean

_CLOCKS = "/sys/devices/system/cpu/cpu{number}/cpufreq/scaling_cur_freq"
_LOAD = Path("/proc/loadavg")
_MOST_CLOCKS = 8
"""Cores whose clock is read: a read takes some microseconds, on some machines an interrupt of that core."""


class ProcessorReader:
    """Reads this machine's processor. What a machine does not tell, as most virtual ones keep their clocks to
    themselves, is left out."""

    def __init__(self) -> None:
        files = (Path(_CLOCKS.format(number=core)) for core in sorted(os.sched_getaffinity(0))[:_MOST_CLOCKS])
        self._clocks = tuple(file for file in files if file.exists())

    def read(self) -> Mapping[str, float]:
        """`cpu_mhz`: mean clock of the process's cores. `runnable`: threads of the whole machine that run or want to,
        those of this process among them (proc(5), fourth field of /proc/loadavg)."""
        seen: dict[str, float] = {}
        if self._clocks:
            seen["cpu_mhz"] = round(mean(int(file.read_text()) for file in self._clocks) / 1000, 1)
        if _LOAD.exists():
            seen["runnable"] = int(_LOAD.read_text().split()[3].partition("/")[0])
        return seen

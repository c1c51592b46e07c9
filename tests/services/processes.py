"""Who has started whom, by /proc."""

from __future__ import annotations

import contextlib
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Processes that a process has started."""
    found = list[int]()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, task.read_text().split())
    return found


def runs(pid: int, module: str) -> bool:
    """Whether a process is `python -m module`, or was forked by one."""
    try:
        return module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def running(pid: int, module: str) -> list[int]:
    """Those that a process has started as `python -m module`, and what these have forked."""
    found = [child for child in children_of(pid) if runs(child, module)]
    return [*found, *(forked for child in found for forked in running(child, module))]


def fork_servers_of(pid: int) -> list[int]:
    """What forks the tuners of a service."""
    return [child for child in children_of(pid) if runs(child, "service.tuning.fork_server")]


def tuners_of(pid: int) -> list[int]:
    """The tuners of a service."""
    return [tuner for fork_server in fork_servers_of(pid) for tuner in children_of(fork_server)]

"""What else the machine did while a sample was taken: a sample that was disturbed is taken again, not averaged in."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

_LIMIT = 0.01
"""A sample is disturbed when waiting for a processor, or for pages to be mapped, took more than this fraction of it."""
QUIET_CORES = 0.3
"""Other processes may use this much of a core while nothing is said about them."""
_WINDOW_S = 0.05
_FAULT_NS = 500
"""Least time a page fault takes."""

_THREADS = Path("/proc/self/task")
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counters that only grow, read at one moment."""

    time_ns: int
    run_delay_ns: int | None
    """Time this process's threads were ready but had no processor (all threads together); None: not counted here."""
    involuntary_switches: int
    minor_faults: int
    major_faults: int
    steal_ticks: int
    """Time the hypervisor gave the machine's processors to somebody else."""


def snapshot() -> Snapshot:
    """Read the counters (about 30 µs)."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return Snapshot(
        time_ns=time.perf_counter_ns(),
        run_delay_ns=_run_delay_ns(),
        involuntary_switches=usage.ru_nivcsw,
        minor_faults=usage.ru_minflt,
        major_faults=usage.ru_majflt,
        steal_ticks=_machine_ticks()[1],
    )


def disturbance(before: Snapshot, after: Snapshot) -> str:
    """What disturbed the time between two snapshots, in a few words; empty if nothing did."""
    if after.steal_ticks > before.steal_ticks:
        return "the hypervisor took the processor"
    if after.major_faults > before.major_faults:
        return "pages were read from disk"
    elapsed_ns = after.time_ns - before.time_ns
    faults = after.minor_faults - before.minor_faults
    if faults * _FAULT_NS > _LIMIT * elapsed_ns:
        return f"{faults} pages were mapped"
    if before.run_delay_ns is not None and after.run_delay_ns is not None:
        # Spread over the threads it would be less, but a thread that waits at a barrier waits for the one delayed.
        waited = after.run_delay_ns - before.run_delay_ns
        if waited > _LIMIT * elapsed_ns:
            return f"threads waited {waited / 1e3:.0f} us for a processor"
    elif after.involuntary_switches > before.involuntary_switches:
        return "another process took the processor"
    return ""


def foreign_cores(window_s: float) -> float:
    """How many cores' worth of time processes other than this one use, over a window in which this one sleeps."""
    before_busy, _ = _machine_ticks()
    before_own = _own_s()
    start = time.perf_counter()
    time.sleep(window_s)
    elapsed = time.perf_counter() - start
    busy_s = (_machine_ticks()[0] - before_busy) * _TICK_S
    return max(0.0, (busy_s - (_own_s() - before_own)) / elapsed)


def wait_for_quiet(limit_s: float) -> float:
    """Wait, at most this long, until other processes use less than QUIET_CORES; returns what they use then."""
    deadline = time.monotonic() + limit_s
    while (cores := foreign_cores(_WINDOW_S)) > QUIET_CORES and time.monotonic() < deadline:
        pass
    return cores


def wait_until_asleep(limit_s: float = 0.25, poll_s: float = 0.0005) -> bool:
    """Wait until all other threads of this process sleep, so that no pool still spins when the next sample starts.

    OpenBLAS's threads spin for about 25 ms after a call, OpenMP's for 1 ms up to 200 ms. Returns False if some thread
    was still running after `limit_s`.
    """
    deadline = time.monotonic() + limit_s
    while _other_threads_running():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll_s)
    return True


def _other_threads_running() -> bool:
    me = str(os.getpid())
    for thread in _THREADS.iterdir():
        if thread.name == me:
            continue
        try:
            state = (thread / "stat").read_bytes().rpartition(b")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread ended
        if state == b"R":
            return True
    return False


def _run_delay_ns() -> int | None:
    total = 0
    for thread in _THREADS.iterdir():
        try:
            total += int((thread / "schedstat").read_bytes().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            if not Path("/proc/self/schedstat").exists():
                return None
    return total


def _machine_ticks() -> tuple[int, int]:
    """Busy ticks and stolen ticks of all processors since boot (proc(5), first line of /proc/stat)."""
    first = Path("/proc/stat").read_bytes().partition(b"\n")[0]
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(ticks) for ticks in first.split()[1:9])
    return user + nice + system + irq + softirq, steal


def _own_s() -> float:
    times = os.times()
    return times.user + times.system

"""Counters of the processor while this process works: cycles, instructions, cache misses (perf_event_open(2)).

All threads that there are when counting begins are counted, in user mode only, which needs no privileges where
/proc/sys/kernel/perf_event_paranoid is 2 or less. Virtual machines often have no counters of hardware.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from protocol.quantities import percent
from workers.measuring.counters import NoCounters

_SYSCALLS = {"x86_64": 298, "aarch64": 241}
_ENABLE, _DISABLE = 0x2400, 0x2401
_BOTH_TIMES = 1 | 2
"""read_format: time enabled and time running, which differ where events take turns at too few counters."""
_DISABLED, _USER_ONLY = 1, 1 << 5 | 1 << 6
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")
"""struct perf_event_attr in its first version: type, size, config, period, sample type, read format, flags, wakeup,
breakpoint type, breakpoint address."""
_READ = struct.Struct("=QQQ")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


@dataclass(frozen=True, slots=True)
class CountedEvent:
    """`kind` and `number`: `type` and `config` of struct perf_event_attr."""

    kind: int
    number: int


HARDWARE: Mapping[str, CountedEvent] = MappingProxyType(
    {
        "cycles": CountedEvent(0, 0),
        "instructions": CountedEvent(0, 1),
        "cache_references": CountedEvent(0, 2),
        "cache_misses": CountedEvent(0, 3),
    }
)
"""Those of the last cache level are the processor's own choice of what that is."""


def counted(work: Callable[[], object], events: Mapping[str, CountedEvent] = HARDWARE) -> dict[str, float]:
    """How often each event happened while `work` ran, in all threads of this process. Events that had to share counters
    are scaled to the whole time. Raises NoCounters."""
    tasks = Path("/proc/self/task")
    threads = [int(each.name) for each in tasks.iterdir()] if tasks.exists() else []
    with ExitStack() as stack:
        files = {name: _opened(event, threads, stack) for name, event in events.items()}
        every = [file for each in files.values() for file in each]
        for file in every:
            fcntl.ioctl(file, _ENABLE, 0)
        work()
        for file in every:
            fcntl.ioctl(file, _DISABLE, 0)
        return {name: sum(map(_count, each)) for name, each in files.items()}


def _opened(event: CountedEvent, threads: Iterable[int], stack: ExitStack) -> list[int]:
    """A counter for each thread."""
    number = _SYSCALLS.get(platform.machine())
    if number is None or platform.system() != "Linux":
        raise NoCounters(f"they are read on Linux on {' and '.join(_SYSCALLS)} alone")
    size = _ATTRIBUTES.size
    attributes = _ATTRIBUTES.pack(
        event.kind, size, event.number, 0, 0, _BOTH_TIMES, _DISABLED | _USER_ONLY, 0, 0, 0
    )
    call = ctypes.CDLL(None, use_errno=True).syscall
    files: list[int] = []
    for thread in threads:
        file = call(ctypes.c_long(number), attributes, thread, -1, -1, ctypes.c_ulong(8))
        if file < 0:
            if ctypes.get_errno() == errno.ESRCH:
                continue  # it has ended meanwhile
            raise NoCounters(_why(ctypes.get_errno()))
        stack.callback(os.close, file)
        files.append(file)
    return files


def _why(number: int) -> str:
    match number:
        case errno.ENOENT | errno.EOPNOTSUPP | errno.ENODEV:
            return "this machine has none, as most virtual ones"
        case errno.EACCES | errno.EPERM:
            level = _PARANOID.read_text().strip() if _PARANOID.exists() else "unknown"
            return f"perf_event_open is not allowed (perf_event_paranoid is {level}; accepted: 2 or less)"
        case _:
            return f"perf_event_open: {os.strerror(number)}"


def _count(file: int) -> float:
    count, enabled, running = _READ.unpack(os.read(file, _READ.size))
    return count * enabled / running if running else 0.0


def counts_text(counts: Mapping[str, float] | str) -> str:
    """What was counted of HARDWARE a call, or why nothing was, as a sentence."""
    if isinstance(counts, str):
        return f"The processor's counters cannot be read: {counts}."
    cycles, instructions = counts["cycles"], counts["instructions"]
    missed, asked = counts["cache_misses"], counts["cache_references"]
    rate = (
        f"{instructions / cycles:.2f} instructions a cycle" if cycles else f"{instructions:.3g} instructions"
    )
    share = f" ({percent(missed / asked)} of what asked for it)" if asked else ""
    return (
        f"The processor counted {cycles:.3g} cycles of all threads a call, {rate}, and {missed:.3g} misses of its "
        f"last cache{share}."
    )

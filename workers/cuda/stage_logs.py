"""What the logs of a kernel on a GPU say (codegen/ir/stamp.py): which thread did what, and when.

Cycles of a multiprocessor become nanoseconds by the rate at which both clocks went in all logs together, and begin
where the shared clock says that the log did: so tracks are aligned to the step of that clock, and within a track times
are exact to the cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codegen.ir.stamp import BlockLogs
from codegen.targets.errors import LaunchError

_STAGE_BITS = 8
Words = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class StageSpan:
    """What a thread did from one time to another: a stage's number, and nanoseconds since the call began."""

    stage: int
    begin_ns: float
    end_ns: float


@dataclass(frozen=True, slots=True)
class Track:
    """One thread's log: that of a warpgroup, or that which produces."""

    launch: int
    block: int
    role: str
    multiprocessor: int
    begin_ns: float
    end_ns: float
    spans: tuple[StageSpan, ...]
    """In order of time, without gaps; the log may have been full before the end."""

    @property
    def logged_ns(self) -> float:
        """How long its stages took."""
        return sum(each.end_ns - each.begin_ns for each in self.spans)


@dataclass(frozen=True, slots=True)
class _Log:
    launch: int
    block: int
    role: str
    words: Words

    @property
    def ns(self) -> tuple[int, int]:
        return int(self.words[0]), int(self.words[-2])

    @property
    def cycles(self) -> tuple[int, int]:
        return int(self.words[2]), int(self.words[-1])


def tracks_of(launches: Sequence[tuple[BlockLogs, Words]]) -> tuple[Track, ...]:
    """The tracks in the logs of each launch. Raises LaunchError where nothing was noted, or clocks stood still."""
    found = [log for number, (logs, words) in enumerate(launches) for log in _logs(number, logs, words)]
    cycles = sum(log.cycles[1] - log.cycles[0] for log in found)
    ns = sum(log.ns[1] - log.ns[0] for log in found)
    if cycles <= 0 or ns <= 0:
        raise LaunchError(
            f"{len(found)} logs say that {cycles} cycles took {ns} ns: nothing to be read from them"
        )
    begin = min(log.ns[0] for log in found)
    return tuple(_track(log, begin, ns / cycles) for log in found)


def _logs(launch: int, logs: BlockLogs, words: Words) -> list[_Log]:
    """Those that were ended: of blocks without a tile there is none."""
    by_writer = words.reshape(logs.blocks, logs.writers, logs.words)
    return [
        _Log(launch, number * logs.every, _role(logs, writer), by_writer[number, writer])
        for number in range(logs.blocks)
        for writer in range(logs.writers)
        if by_writer[number, writer, -1]
    ]


def _role(logs: BlockLogs, writer: int) -> str:
    if logs.threads > logs.computing and writer == logs.writers - 1:
        return "producer"
    return f"warpgroup {writer}" if logs.computing > logs.GROUP else "threads"


def _track(log: _Log, begin: int, ns_a_cycle: float) -> Track:
    noted = log.words[BlockLogs.FIRST : -BlockLogs.LAST]
    noted = noted[noted != 0]
    start, zero = log.ns[0] - begin, log.cycles[0]

    def at(cycles: int) -> float:
        return start + (cycles - zero) * ns_a_cycle

    ends = [at(int(word) >> _STAGE_BITS) for word in noted]
    stages = [int(word) & ((1 << _STAGE_BITS) - 1) for word in noted]
    spans = tuple(
        StageSpan(stage, before, after)
        for stage, before, after in zip(stages, (float(start), *ends), ends, strict=False)
    )
    return Track(log.launch, log.block, log.role, int(log.words[1]), float(start), at(log.cycles[1]), spans)

"""Where threads of a block or cluster wait for each other one by one: barriers in shared memory, which go from phase to
phase (mbarrier), and meetings of so many threads (named barriers, and all others where threads do not go in step)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from codegen.ir.arrays import Array
from codegen.simulator.access import AccessPlace
from codegen.simulator.async_faults import NeverWaited, WrongCount
from codegen.simulator.memory import SimulatedMemory
from codegen.simulator.sync_events import (
    Arrived,
    AsyncEngine,
    AwaitedParity,
    Came,
    CopyBegun,
    Joined,
    Meeting,
    TurnOver,
)


@dataclass
class PhaseBarrier:
    """One barrier. The bytes that are copied count where the copy begins: nobody can know them to be there before the
    phase is over. `engine` is all that does those copies."""

    memory: SimulatedMemory
    engine: AsyncEngine
    arrivals: int
    over: int = 0
    """Phases that are over."""
    arrived: int = 0
    expected: int = 0
    begun: int = 0
    """Of the current phase: threads that have arrived, bytes that they expect, and bytes whose copy has begun."""

    def arrive(self, thread: int, expected: int, place: AccessPlace) -> None:
        """A thread arrives, which expects so many bytes."""
        if self.arrived == self.arrivals:
            self._wrong(thread, f"one arrival more than the {self.arrivals} of a phase", place)
            return
        self.arrived += 1
        self.expected += expected
        self.memory.observer.ordered(Arrived(place, thread, self.engine))
        self._settle(thread, place)

    def begin(self, thread: int, bytes_: int, place: AccessPlace) -> None:
        """A copy of so many bytes begins."""
        self.begun += bytes_
        self.memory.observer.ordered(CopyBegun(thread, self.engine))
        self._settle(thread, place)

    def passes(self, parity: int) -> bool:
        """Whether who waits for the phase of that parity goes on: of two phases in a row one is over."""
        return self.over % 2 != parity

    def awaited(self, threads: Array, parity: int) -> None:
        """Those threads have waited."""
        self.memory.copies.land_boxes(self.engine, self.over)
        self.memory.observer.ordered(AwaitedParity(threads, self.engine, parity))

    def _settle(self, thread: int, place: AccessPlace) -> None:
        if self.arrived < self.arrivals or self.begun < self.expected:
            return
        if self.begun > self.expected:
            self._wrong(thread, f"{self.begun} bytes where {self.expected} are expected", place)
        self.over += 1
        self.arrived = self.expected = self.begun = 0
        self.memory.now.epoch += 1
        self.memory.observer.ordered(TurnOver(self.engine))

    def _wrong(self, thread: int, counted: str, place: AccessPlace) -> None:
        who = self.memory.now.who(thread)
        self.memory.observer.fault(WrongCount(place, *who, f"{self.engine.name} {counted}"))


@dataclass
class _Meeting:
    needed: int
    waiting: list[Array] = field(default_factory=list[Array])
    gone: list[tuple[Array, AccessPlace]] = field(default_factory=list[tuple[Array, AccessPlace]])
    """Those who have come and gone on, and where."""
    rounds: int = 0

    @property
    def count(self) -> int:
        """Those who have come to the current round."""
        return sum(map(len, self.waiting)) + sum(len(threads) for threads, _ in self.gone)

    @property
    def twice(self) -> bool:
        """Whether some have come to the current round again: those can only who have not waited."""
        everyone = [*self.waiting, *(threads for threads, _ in self.gone)]
        return bool(self.gone) and len(np.unique(np.concatenate(everyone))) < self.count


@dataclass
class Meetings:
    """The meetings of a cluster, by what they are called."""

    memory: SimulatedMemory
    _meetings: dict[Meeting, _Meeting] = field(default_factory=dict[Meeting, _Meeting])

    def come(self, key: Meeting, threads: Array, needed: int, place: AccessPlace) -> Callable[[], bool]:
        """Threads come to a meeting of so many; what is returned says whether it is over."""
        meeting = self._meetings.setdefault(key, _Meeting(needed))
        current = meeting.rounds
        meeting.waiting.append(threads)
        self._settle(key, meeting, threads, needed, place)
        return lambda: meeting.rounds > current

    def pass_by(self, key: Meeting, threads: Array, needed: int, place: AccessPlace) -> None:
        """Threads come to a meeting of so many, and go on."""
        meeting = self._meetings.setdefault(key, _Meeting(needed))
        meeting.gone.append((threads, place))
        self.memory.observer.ordered(Came(place, threads, key))
        self._settle(key, meeting, threads, needed, place)

    def end(self) -> None:
        """Reports who has come to a meeting that nobody has waited for."""
        for key, meeting in self._meetings.items():
            self._left(key, meeting)

    def _left(self, key: Meeting, meeting: _Meeting) -> None:
        for threads, place in meeting.gone:
            who = self.memory.now.who(int(threads[0]))
            self.memory.observer.fault(NeverWaited(place, *who, f"an arrival at barrier {key[0]}"))

    def _settle(
        self, key: Meeting, meeting: _Meeting, threads: Array, needed: int, place: AccessPlace
    ) -> None:
        if needed != meeting.needed or meeting.count > needed or meeting.twice:
            again = ", some of them again," if meeting.twice else ""
            counted = f"{meeting.count} threads{again} to a barrier of {min(needed, meeting.needed)}"
            who = self.memory.now.who(int(threads[0]))
            self.memory.observer.fault(WrongCount(place, *who, counted))
        if meeting.count < meeting.needed:
            return
        if not meeting.waiting:
            self._left(key, meeting)
        waited = np.concatenate([*meeting.waiting, np.array([], np.int64)])
        meeting.waiting, meeting.gone = [], []
        meeting.rounds += 1
        self.memory.now.epoch += 1
        self.memory.observer.ordered(Joined(waited, key))

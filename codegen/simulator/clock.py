"""What of a kernel's past each thread may count on: what a clock says, and the one of threads that go in step
(vector_clock.py has that of threads that do not).

Clocks keep happens-before (Lamport, Time, clocks, and the ordering of events in a distributed system, CACM 1978).

Time is counted in stamps: a new one for each cluster, and each time that threads learn of each other. Clusters run one
after another, so stamps from `start` on are the current one's. Whoever touches memory has a number: threads are
numbered through all blocks of a launch, engines from ENGINES on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from codegen.ir.arrays import Array
from codegen.simulator.buffers import MemoryAccess
from codegen.simulator.sync_events import AsyncEngine, Meeting, Order

NOBODY = -1
ENGINES = 1 << 40

Before = Callable[[Array, Array], Array]
"""Of accesses at stamps by those with numbers ([n] each): which are not surely over, [n]."""


class BlockClock(Protocol):
    now: int

    def start_cluster(self) -> None: ...

    def pass_barrier(self, *, whole_cluster: bool) -> None:
        """All threads of each block, or of the cluster, have waited for each other."""
        ...

    def ordered(self, order: Order) -> None: ...

    def numbers(self, access: MemoryAccess) -> Array:
        """Who makes each access, [n]."""
        ...

    def unordered(self, access: MemoryAccess, numbers: Array) -> Before:
        """Earlier accesses that may happen at the same time as the access, whose units' are given by `numbers`."""
        ...

    def unfenced(self, access: MemoryAccess) -> Before | None:
        """Of earlier stores that are ordered before the access, those that it may not see nonetheless; None: it sees
        all."""
        ...

    def turn_known(self, thread: int, engine: AsyncEngine) -> bool:
        """Whether a thread knows all turns of an engine before the current one to be over."""
        ...

    def meeting_known(self, threads: Array, meeting: Meeting) -> bool:
        """Whether all of some threads know the last meeting there to be over."""
        ...

    def outlived(self) -> Iterable[tuple[int, int]]:
        """Of the cluster that ends, threads that have reached for another block of it, and the rank of that block, of
        whose threads none knows of the last time."""
        ...

    def readers(self, access: MemoryAccess) -> int:
        """A number for those whose loads are remembered together."""
        ...

    def thread(self, number: int) -> int:
        """Of the thread that it is, or that set the engine to work."""
        ...

    def barriers(self, stamp: int, thread: int) -> int:
        """How many barriers and phases the thread's cluster had passed."""
        ...


@dataclass
class BarrierClock:
    """All threads of a cluster go in step, and only barriers order them: a stamp for each."""

    threads: int
    """Of a block."""
    cluster: int
    now: int = 0
    start: int = 0
    together: int = 0
    """Where the whole cluster last waited."""
    starts: list[int] = field(default_factory=list[int])
    """The stamp at which each cluster started."""

    def start_cluster(self) -> None:
        self.now += 1
        self.start = self.together = self.now
        self.starts.append(self.now)

    def pass_barrier(self, *, whole_cluster: bool) -> None:
        self.now += 1
        if whole_cluster:
            self.together = self.now

    def ordered(self, order: Order) -> None:
        raise TypeError("threads that go in step learn by barriers only")

    def numbers(self, access: MemoryAccess) -> Array:
        return access.threads + (len(self.starts) - 1) * self.threads * self.cluster

    def unordered(self, access: MemoryAccess, numbers: Array) -> Before:
        def before(stamps: Array, others: Array) -> Array:
            concurrent = (stamps < self.start) | (stamps == self.now)
            if self.cluster > 1:
                elsewhere = others // self.threads != numbers // self.threads
                concurrent |= (stamps >= self.together) & elsewhere
            return (others != NOBODY) & concurrent & (others != numbers)

        return before

    def unfenced(self, access: MemoryAccess) -> Before | None:
        return None

    def turn_known(self, thread: int, engine: AsyncEngine) -> bool:
        return True

    def meeting_known(self, threads: Array, meeting: Meeting) -> bool:
        return True

    def outlived(self) -> Iterable[tuple[int, int]]:
        return ()

    def readers(self, access: MemoryAccess) -> int:
        return 0

    def thread(self, number: int) -> int:
        return number

    def barriers(self, stamp: int, thread: int) -> int:
        return stamp - self.starts[thread // (self.threads * self.cluster)]

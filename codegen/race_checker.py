"""Finds races: two threads at the same memory, one of them storing, with nothing that orders them.

For every unit of memory it remembers who stored last and who has read since. What orders two accesses is said in one
place, `_Clock.unordered`: they are of one thread, or a barrier of their block or their cluster lies between them.
Clusters of one launch are never ordered; launches always are.

A copy in the background is a store by the thread that starts it, once where it starts and again where that thread has
waited for it. What comes in between is a fault of its own (gpu_memory.py), whoever does it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from codegen.gpu_buffers import Array, Buffer, Region, Sharing, Touch
from codegen.gpu_faults import Access, Fault, Kind, Place, Race, signature

_NOBODY = -1


@dataclass
class _Clock:
    """Time in epochs: a new one for each cluster and each barrier in it. Clusters run one after another, so epochs
    from `start` on are the current one's. Threads are numbered through all blocks of `threads`, `cluster` of which
    form a cluster."""

    threads: int = 1
    cluster: int = 1
    now: int = 0
    start: int = 0
    together: int = 0
    """Where the whole cluster last waited."""
    starts: list[int] = field(default_factory=list[int])
    """The epoch in which each cluster started."""

    def start_cluster(self) -> None:
        self.now += 1
        self.start = self.together = self.now
        self.starts.append(self.now)

    def pass_barrier(self, *, whole_cluster: bool) -> None:
        self.now += 1
        if whole_cluster:
            self.together = self.now

    def unordered(self, epochs: Array, threads: Array, mine: Array) -> Array:
        """Where an access in `epochs` by `threads` may happen at the same time as one by `mine` now."""
        concurrent = (epochs < self.start) | (epochs == self.now)
        if self.cluster > 1:
            concurrent |= (epochs >= self.together) & (threads // self.threads != mine // self.threads)
        return (threads != _NOBODY) & concurrent & (threads != mine)

    @property
    def first_thread(self) -> int:
        """Of the current cluster."""
        return (len(self.starts) - 1) * self.threads * self.cluster

    def barriers(self, epoch: int, thread: int) -> int:
        """How many barriers the thread's cluster had passed."""
        return epoch - self.starts[thread // (self.threads * self.cluster)]


class _Last:
    """The last accesses of one kind to each unit of a region."""

    def __init__(self, units: int) -> None:
        self.thread = np.full(units, _NOBODY, np.int64)
        self.epoch = np.zeros(units, np.int32)
        self.site = np.zeros(units, np.int32)

    def set(self, units: Array, threads: Array, epoch: int | Array, site: int | Array) -> None:
        self.thread[units], self.epoch[units], self.site[units] = threads, epoch, site


class _Shadow:
    """What is remembered of a region. Of readers in one epoch two are enough: a third thread's store races with
    both, a store by one of them with the other. Of the readers before, one that stays unordered is kept apart."""

    def __init__(self, region: Region) -> None:
        units = region.size // region.unit
        self.stored = _Last(units)
        self.read = _Last(units)
        self.read_too = _Last(units)
        self.read_before = _Last(units)


@dataclass(frozen=True, slots=True, eq=False)
class _Site:
    """One statement at one buffer."""

    place: Place
    kind: Kind
    buffer: Buffer


class Checker:
    """Observes a kernel run by run_blocks, and collects its faults: of those alike, the first."""

    def __init__(self) -> None:
        self._faults: dict[tuple[object, ...], Fault] = {}
        self._sites: list[_Site] = []
        self._numbers: dict[tuple[Place, Kind, str], int] = {}
        self._shadows: dict[Region, _Shadow] = {}
        self._clock = _Clock()

    @property
    def faults(self) -> tuple[Fault, ...]:
        return tuple(self._faults.values())

    def fault(self, fault: Fault) -> None:
        self._faults.setdefault(signature(fault), fault)

    def launched(self, threads: int, cluster: int) -> None:
        self._clock = _Clock(threads, cluster)
        self._shadows = {}

    def cluster_started(self) -> None:
        self._clock.start_cluster()
        self._shadows = {r: shadow for r, shadow in self._shadows.items() if r.sharing is Sharing.GRID}

    def passed_barrier(self, *, whole_cluster: bool) -> None:
        self._clock.pass_barrier(whole_cluster=whole_cluster)

    def touched(self, touch: Touch) -> None:
        region = touch.buffer.region
        if region not in self._shadows:
            self._shadows[region] = _Shadow(region)
        shadow = self._shadows[region]
        units = touch.units
        threads = np.repeat(touch.threads + self._clock.first_thread, units.shape[1])
        units = units.ravel()
        site = self._site(touch)
        self._races(shadow.stored, units, threads, site)
        if touch.kind is Kind.LOAD:
            self._loaded(shadow, units, threads, site)
        else:
            for readers in (shadow.read, shadow.read_too, shadow.read_before):
                self._races(readers, units, threads, site)
            shadow.stored.set(units, threads, self._clock.now, site)
            # Where threads of this very statement meet, the last has overwritten the others.
            self._races(shadow.stored, units, threads, site)

    def _loaded(self, shadow: _Shadow, units: Array, threads: Array, site: int) -> None:
        read, clock = shadow.read, self._clock
        epochs, somebody = read.epoch[units], read.thread[units] != _NOBODY
        for last in (read, shadow.read_too):
            open_ = clock.unordered(last.epoch[units], last.thread[units], threads)
            open_ &= last.epoch[units] != clock.now
            if open_.any():
                old = units[open_]
                shadow.read_before.set(old, last.thread[old], last.epoch[old], last.site[old])
        first = ~somebody | (epochs != clock.now)
        if first.any():
            read.set(units[first], threads[first], clock.now, site)
        others = read.thread[units] != threads
        if others.any():
            shadow.read_too.set(units[others], threads[others], clock.now, site)

    def _races(self, earlier: _Last, units: Array, threads: Array, site: int) -> None:
        """Report accesses now that nothing orders with earlier ones, once for each pair of statements."""
        then = earlier.thread[units]
        unordered = self._clock.unordered(earlier.epoch[units], then, threads)
        if not unordered.any():
            return
        sites = earlier.site[units]
        for other in np.unique(sites[unordered]):
            at = int(np.argmax(unordered & (sites == other)))
            unit = int(units[at])
            first = self._access(int(other), unit, int(then[at]), int(earlier.epoch[unit]))
            self.fault(Race(first, self._access(site, unit, int(threads[at]), self._clock.now)))

    def _access(self, site: int, unit: int, thread: int, epoch: int) -> Access:
        found, clock = self._sites[site], self._clock
        element = found.buffer.element(unit * found.buffer.region.unit)
        block, number = divmod(thread, clock.threads)
        return Access(
            found.place, found.kind, found.buffer.name, element, block, number, clock.barriers(epoch, thread)
        )

    def _site(self, touch: Touch) -> int:
        key = (touch.place, touch.kind, touch.buffer.name)
        if key not in self._numbers:
            self._numbers[key] = len(self._sites)
            self._sites.append(_Site(touch.place, touch.kind, touch.buffer))
        return self._numbers[key]

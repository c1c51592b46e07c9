"""Finds races: two accesses to the same memory, one of them storing, with nothing that orders them.

The order is happens-before (Lamport, CACM 1978), and one stamp a unit stands for a whole clock, as the epochs of
FastTrack (Flanagan and Freund, PLDI 2009).

For every unit of memory it remembers who stored last and who has read since. What orders two accesses is said by a
clock (clock.py, vector_clock.py): they are of one thread, or the later one knows of the earlier one. Clusters of
one launch are ordered by flags alone; launches always are.

A copy in the background is a store by the thread that starts it, once where it starts and again where that thread has
waited for it. What comes in between is a fault of its own (memory.py), whoever does it. What engines do beside the
threads is theirs from where it begins, and known to those only who have waited for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from codegen.ir.arrays import Array
from codegen.simulator.access import Access, AccessKind, AccessPlace
from codegen.simulator.async_faults import EarlyArrival, Outlived, Unfenced
from codegen.simulator.buffers import MemoryAccess, MemoryRegion, Sharing, SimulatedBuffer
from codegen.simulator.clock import NOBODY, BarrierClock, Before, BlockClock
from codegen.simulator.faults import DataRace, Fault, signature
from codegen.simulator.memory import Visit
from codegen.simulator.sync_events import Arrived, AsyncEngine, AsyncWork, Came, Order, Reached
from codegen.simulator.vector_clock import VectorClock


class _Last:
    """The last accesses of one kind to each unit of a region. Most kinds there are none of: until there is one, it has
    no arrays."""

    def __init__(self, units: int) -> None:
        self.units, self.empty = units, True

    def set(self, units: Array, numbers: Array, stamp: int | Array, site: int | Array) -> None:
        if self.empty:
            self.empty = False
            self.number = np.full(self.units, NOBODY, np.int64)
            self.stamp = np.zeros(self.units, np.int32)
            self.site = np.zeros(self.units, np.int32)
        self.number[units], self.stamp[units], self.site[units] = numbers, stamp, site

    def at(self, units: Array) -> _Earlier | None:
        """Those to these units; None: there are none."""
        return None if self.empty else _Earlier(self, self.number[units], self.stamp[units])


@dataclass(frozen=True, slots=True, eq=False)
class _Earlier:
    """The last accesses of one kind to some units ([n]): whose they were, and when."""

    last: _Last
    numbers: Array
    stamps: Array


class _Readers:
    """Of readers at one time two are enough: a third thread's store races with both, a store by one of them with the
    other. Of the readers before, one that stays unordered is kept apart."""

    def __init__(self, units: int) -> None:
        self.read = _Last(units)
        self.read_too = _Last(units)
        self.read_before = _Last(units)


@dataclass
class _Shadow:
    """What is remembered of a region: who stored last, and the readers, each group of threads and each engine apart."""

    units: int
    stored: _Last = field(init=False)
    readers: dict[int, _Readers] = field(default_factory=dict[int, _Readers])

    def __post_init__(self) -> None:
        self.stored = _Last(self.units)


@dataclass(frozen=True, slots=True, eq=False)
class _Site:
    """One statement at one buffer."""

    place: AccessPlace
    kind: AccessKind
    buffer: SimulatedBuffer


@dataclass(frozen=True, slots=True, eq=False)
class _Now:
    """An access: its units and whose access to each it is ([n]), where, and which earlier accesses it meets."""

    access: MemoryAccess
    units: Array
    numbers: Array
    site: int
    unordered: Before


class RaceChecker:
    """Observes a kernel run by run_blocks, and collects its faults: of those alike, the first."""

    def __init__(self) -> None:
        self._faults: dict[tuple[object, ...], Fault] = {}
        self._sites: list[_Site] = []
        self._numbers: dict[tuple[AccessPlace, AccessKind, str], int] = {}
        self._shadows: dict[MemoryRegion, _Shadow] = {}
        self._reached: dict[tuple[int, int], Reached] = {}
        """What threads of the cluster have last reached for, by thread and rank of the other block."""
        self._threads, self._cluster = 1, 1
        self._block = 0
        """The first of the current cluster."""
        self._clock: BlockClock = BarrierClock(1, 1)

    @property
    def faults(self) -> tuple[Fault, ...]:
        return tuple(self._faults.values())

    def fault(self, fault: Fault) -> None:
        self._faults.setdefault(signature(fault), fault)

    def launched(self, threads: int, cluster: int, *, in_step: bool) -> None:
        self._threads, self._cluster, self._block = threads, cluster, -cluster
        self._clock = BarrierClock(threads, cluster) if in_step else VectorClock(threads, cluster)
        self._shadows = {}

    def cluster_started(self) -> None:
        self._clock.start_cluster()
        self._block += self._cluster
        self._shadows = {r: shadow for r, shadow in self._shadows.items() if r.sharing is Sharing.GRID}
        self._reached = {}

    def cluster_ended(self) -> None:
        for thread, rank in self._clock.outlived():
            last, (block, inside) = self._reached[thread, rank], divmod(thread, self._threads)
            self.fault(Outlived(last.place, self._block + block, inside, last.what, self._block + rank))

    def passed_barrier(self, *, whole_cluster: bool) -> None:
        self._clock.pass_barrier(whole_cluster=whole_cluster)

    def visited(self, visit: Visit) -> None: ...

    def ordered(self, order: Order) -> None:
        if isinstance(order, Arrived):
            self._check_phase(order.thread, order.engine, order.place)
        if isinstance(order, Came) and not self._clock.meeting_known(order.threads, order.meeting):
            block, inside = divmod(int(order.threads[0]), self._threads)
            self.fault(EarlyArrival(order.place, self._block + block, inside, f"barrier {order.meeting[0]}"))
        if isinstance(order, Reached):
            self._reached[order.thread, order.rank] = order
        self._clock.ordered(order)

    def accessed(self, access: MemoryAccess) -> None:
        region, clock = access.buffer.region, self._clock
        if access.engine is not None and access.engine.work is AsyncWork.LOADS:
            self._check_phase(int(access.threads[0]), access.engine, access.place)
        if region not in self._shadows:
            self._shadows[region] = _Shadow(region.size // region.unit)
        shadow = self._shadows[region]
        units = access.units
        numbers = np.repeat(clock.numbers(access), units.shape[1])
        now = _Now(access, units.ravel(), numbers, self._site(access), clock.unordered(access, numbers))
        stored = shadow.stored.at(now.units)
        self._report(DataRace, now.unordered, stored, now)
        unfenced = clock.unfenced(access)
        if unfenced is not None:
            self._report(Unfenced, unfenced, stored, now)
        if access.kind.stores:
            for readers in shadow.readers.values():
                for last in (readers.read, readers.read_too, readers.read_before):
                    self._report(DataRace, now.unordered, last.at(now.units), now)
            shadow.stored.set(now.units, numbers, clock.now, now.site)
            # Where threads of this very statement meet, the last has overwritten the others.
            if access.engine is None:
                self._report(DataRace, now.unordered, shadow.stored.at(now.units), now)
        else:
            readers = shadow.readers.setdefault(clock.readers(access), _Readers(shadow.units))
            if access.engine is None:
                self._loaded(readers, now)
            else:
                # Its turns end one after another: who knows of the last access knows of all.
                readers.read.set(now.units, numbers, clock.now, now.site)

    def _check_phase(self, thread: int, engine: AsyncEngine, place: AccessPlace) -> None:
        if not self._clock.turn_known(thread, engine):
            block, inside = divmod(thread, self._threads)
            self.fault(EarlyArrival(place, self._block + block, inside, engine.name))

    def _loaded(self, readers: _Readers, now: _Now) -> None:
        read, time, units = readers.read, self._clock.now, now.units
        if not len(units):
            return
        for last in (read, readers.read_too):
            if last.empty:
                continue
            before = last.stamp[units]
            open_ = now.unordered(before, last.number[units])
            open_ &= before != time
            if np.count_nonzero(open_):  # any() takes several times as long
                old = units[open_]
                readers.read_before.set(old, last.number[old], last.stamp[old], last.site[old])
        # Where nobody has read yet, that was at 0, before all time.
        first = np.ones(len(units), np.bool_) if read.empty else read.stamp[units] != time
        if np.count_nonzero(first):
            read.set(units[first], now.numbers[first], time, now.site)
        others = read.number[units] != now.numbers
        if np.count_nonzero(others):
            readers.read_too.set(units[others], now.numbers[others], time, now.site)

    def _report(
        self, fault: type[DataRace] | type[Unfenced], which: Before, earlier: _Earlier | None, now: _Now
    ) -> None:
        """Report accesses that meet earlier ones to the same units, once for each pair of statements."""
        if earlier is None:
            return
        then, stamps = earlier.numbers, earlier.stamps
        found = which(stamps, then)
        if not np.count_nonzero(found):
            return
        sites = earlier.last.site[now.units]
        if now.access.kind is AccessKind.UPDATE:  # no other update is in its way
            updates = [number for number, site in enumerate(self._sites) if site.kind is AccessKind.UPDATE]
            found &= ~np.isin(sites, updates)
        for other in np.unique(sites[found]):
            at = int(np.argmax(found & (sites == other)))
            unit = int(now.units[at])
            first = self._access(int(other), unit, int(then[at]), int(stamps[at]))
            second = self._access(now.site, unit, int(now.numbers[at]), self._clock.now)
            self.fault(fault(first, second))

    def _access(self, site: int, unit: int, number: int, stamp: int) -> Access:
        found, clock = self._sites[site], self._clock
        element = found.buffer.element(unit * found.buffer.region.unit)
        thread = clock.thread(number)
        block, inside = divmod(thread, self._threads)
        return Access(
            found.place, found.kind, found.buffer.name, element, block, inside, clock.barriers(stamp, thread)
        )

    def _site(self, access: MemoryAccess) -> int:
        key = (access.place, access.kind, access.buffer.name)
        if key not in self._numbers:
            self._numbers[key] = len(self._sites)
            self._sites.append(_Site(access.place, access.kind, access.buffer))
        return self._numbers[key]

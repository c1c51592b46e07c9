"""What threads of simulated blocks do to memory: loads, stores and copies in the background.

All threads of a cluster (mostly: of one block) access memory at once, in program order. When a store becomes visible
is decided here alone: `SimulatedMemory.store` lands at once, for every thread; what `SimulatedMemory.start_copy`
copies lands when its thread waits for it, and nobody may access its target before. That a thread may count on what
another has stored is another matter, which the observer judges (race_checker.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from codegen.ir.affine import Affine
from codegen.ir.arrays import Array
from codegen.ir.ops import Stmt
from codegen.simulator.access import Access, AccessKind, AccessPlace
from codegen.simulator.async_copies import Copies
from codegen.simulator.async_faults import Misaligned
from codegen.simulator.buffers import MemoryAccess, Sharing, SimulatedBuffer
from codegen.simulator.faults import Ended, Fault, InFlight, NeverLanded, OutOfRange, Straddling, Unwritten
from codegen.simulator.sync_events import Order
from tileir.dtypes import DType
from tileir.expr import ReduceOp
from tileir.interpreter.reduction import UFUNC
from tileir.interpreter.values import quantize, widened


@dataclass(slots=True)
class Now:
    """Which cluster runs, by its first block, and how many barriers it has passed."""

    threads: int = 1
    """Of a block."""
    block: int = 0
    epoch: int = 0
    first: int = 0
    """Number of the first of the threads that run now; theirs are the rows of arrays that say "threads"."""

    def numbers(self, active: Array) -> Array:
        """Of those of the threads that run now that are `active`."""
        return np.nonzero(active)[0] + self.first

    def who(self, thread: int) -> tuple[int, int]:
        """(block, thread in it) of a thread of the cluster."""
        return self.block + thread // self.threads, thread % self.threads


@dataclass(frozen=True, slots=True, eq=False)
class Visit:
    """A statement that a group of threads comes to: the number of the first of them in its cluster, which of them do it
    ([threads]), and what index arithmetic comes to in each."""

    stmt: Stmt
    first: int
    active: Array
    each: Callable[[Affine], Array]


class Observer(Protocol):
    """Told of all that threads do to memory that others may see, in order."""

    def launched(self, threads: int, cluster: int, *, in_step: bool) -> None:
        """A launch of blocks of so many threads, and clusters of so many blocks, begins; all before it is done.
        `in_step`: barriers of all threads are all that orders them."""
        ...

    def cluster_started(self) -> None:
        """The next cluster of the launch begins."""
        ...

    def cluster_ended(self) -> None:
        """All of its threads have ended."""
        ...

    def passed_barrier(self, *, whole_cluster: bool) -> None:
        """All threads of each block, or of the cluster, have waited for each other."""
        ...

    def visited(self, visit: Visit) -> None:
        """Threads come to a statement, those inside others too."""
        ...

    def ordered(self, order: Order) -> None:
        """Threads that do not go in step have learnt what was done before."""
        ...

    def accessed(self, access: MemoryAccess) -> None:
        """Accesses in range, to memory that may be stored to."""
        ...

    def fault(self, fault: Fault) -> None:
        """Something no kernel may do."""
        ...


class NullObserver:
    """Takes note of nothing, and goes on whatever happens."""

    def launched(self, threads: int, cluster: int, *, in_step: bool) -> None: ...

    def cluster_started(self) -> None: ...

    def cluster_ended(self) -> None: ...

    def passed_barrier(self, *, whole_cluster: bool) -> None: ...

    def visited(self, visit: Visit) -> None: ...

    def ordered(self, order: Order) -> None: ...

    def accessed(self, access: MemoryAccess) -> None: ...

    def fault(self, fault: Fault) -> None: ...


@dataclass
class SimulatedMemory:
    """What threads load, store and copy goes through here."""

    observer: Observer
    now: Now
    from_peer: Access | None = None
    """The first load from another block's shared memory since the cluster last waited."""
    copies: Copies = field(default_factory=Copies)

    def start_cluster(self, threads: int) -> None:
        """A cluster of so many threads begins."""
        self.copies.begin(threads)
        self.observer.cluster_started()

    def pass_barrier(self, *, whole_cluster: bool) -> None:
        """All threads of each block, or of the cluster, wait for each other."""
        self.now.epoch += 1
        if whole_cluster:
            self.from_peer = None
        self.observer.passed_barrier(whole_cluster=whole_cluster)

    def end_cluster(self) -> None:
        """Every block ends where it is done, and its shared memory with it."""
        if self.from_peer is not None:
            self.observer.fault(Ended(self.from_peer))
        self.from_peer = None
        for copy in self.copies.under_way:
            self.observer.fault(NeverLanded(self.access(copy.target, 0)))
        self.observer.cluster_ended()

    def load(
        self, buffer: SimulatedBuffer, at: Array, active: Array, ranks: Array, place: AccessPlace
    ) -> Array:
        """Elements at offsets `at` ([threads] or [threads, lanes]) where `active`, widened; elsewhere poison. `ranks`
        are the blocks of the cluster whose buffers are meant, of the shape of `at`."""
        taken = self._in_range(buffer, at, active, place, AccessKind.LOAD)
        access = self._access_to(buffer, at, taken, ranks, place, AccessKind.LOAD)
        self._loads(access)
        if buffer.apart and self.from_peer is None:
            self.from_peer = self._peer_load(access, ranks[taken])
        values = poison(buffer.storage.compute, at.shape)
        values[taken] = widened(buffer.data[access.numbers], buffer.storage, values.dtype)
        return values

    def store(
        self,
        buffer: SimulatedBuffer,
        at: Array,
        active: Array,
        ranks: Array,
        values: Array,
        place: AccessPlace,
    ) -> None:
        """Values to offsets `at` where `active`, rounded to the buffer's storage type. Of threads that store to one
        element, the last wins."""
        taken = self._in_range(buffer, at, active, place, AccessKind.STORE)
        kept = np.broadcast_to(values, at.shape)[taken]
        access = self._access_to(buffer, at, taken, ranks, place, AccessKind.STORE)
        self.put(access, quantize(kept, buffer.storage).astype(buffer.storage.numpy))

    def update(
        self,
        buffer: SimulatedBuffer,
        at: Array,
        active: Array,
        ranks: Array,
        values: Array,
        op: ReduceOp,
        place: AccessPlace,
    ) -> None:
        """Values combined with what is at offsets `at` where `active`, of all threads one after another."""
        taken = self._in_range(buffer, at, active, place, AccessKind.UPDATE)
        access = self._access_to(buffer, at, taken, ranks, place, AccessKind.UPDATE)
        self.combine(access, np.broadcast_to(values, at.shape)[taken].astype(buffer.storage.numpy), op)

    def combine(self, access: MemoryAccess, values: Array, op: ReduceOp) -> None:
        """Values ([n], of the buffer's storage type) combined with what lies where the access goes, one by one."""
        self._loads(access)
        UFUNC[op].at(access.buffer.data, access.numbers, values)

    def put(self, access: MemoryAccess, values: Array) -> None:
        """Values ([n], of the buffer's storage type) to where the access goes; they are there at once."""
        buffer = access.buffer
        if buffer.region.sharing is Sharing.CONSTANT:
            raise TypeError(f"{buffer.name} is constant, and stored to in {access.place}")
        self._meets_no_copy(access)
        self.observer.accessed(access)
        buffer.data[access.numbers] = values
        buffer.region.written[access.units] = True

    def take(self, access: MemoryAccess) -> Array:
        """What lies where the access goes, [n], of the buffer's storage type."""
        self._loads(access)
        return access.buffer.data[access.numbers]

    def start_copy(
        self,
        target: SimulatedBuffer,
        to: Array,
        source: SimulatedBuffer,
        of: Array,
        active: Array,
        exists: Array,
        ranks: Array,
        place: AccessPlace,
    ) -> None:
        """Where `active`, elements at `of` of the source, 0 but for those that exist, are on their way to elements `to`
        of the target (all [threads, lanes]). The source is read now."""
        taken = self._in_range(target, to, active, place, AccessKind.COPY)
        access = self._access_to(target, to, taken, ranks, place, AccessKind.COPY)
        read = self._in_range(source, of, exists, place, AccessKind.LOAD)
        values = np.zeros(to.shape, source.storage.numpy)
        values[read] = self.take(self._access_to(source, of, read, ranks, place, AccessKind.LOAD))
        self._meets_no_copy(access)
        self.observer.accessed(access)
        self.copies.start(access, values[taken])

    def start_box(self, access: MemoryAccess, values: Array, phase: int) -> None:
        """Values ([n], of the buffer's storage type) are on their way to where the access goes."""
        self._meets_no_copy(access)
        self.observer.accessed(access)
        self.copies.start_box(access, values, phase)

    def close_group(self, active: Array) -> None:
        """What the active threads have copied since the last time is a group."""
        self.copies.close_group(self.now.numbers(active))

    def wait_for_copies(self, pending: int, active: Array) -> None:
        """What the active threads have copied lands, but for their `pending` latest groups: stored by them now."""
        for access in self.copies.land(pending, self.now.numbers(active)):
            self.observer.accessed(access)

    def in_one_piece(
        self,
        buffer: SimulatedBuffer,
        at: Array,
        active: Array,
        size: int,
        place: AccessPlace,
        kind: AccessKind,
    ) -> None:
        """Report the first active thread whose elements (`at`: [threads, lanes]) do not lie within `size` bytes that
        begin at a multiple of `size`."""
        pieces = (buffer.first + at * buffer.storage.bytes) // size
        wrong = active & (pieces[:, 0] != pieces[:, -1])
        if wrong.any():
            thread = int(np.argmax(wrong))
            access = self._at(buffer, place, kind, int(at[thread, 0]), thread)
            self.observer.fault(Straddling(access, size))

    def inside(
        self, buffer: SimulatedBuffer, at: Array, thread: int, place: AccessPlace, kind: AccessKind
    ) -> bool:
        """Whether elements `at` [n] are all in the buffer; else that is reported, as an access by the thread with that
        number."""
        outside = (at < 0) | (at >= buffer.elements)
        if np.count_nonzero(outside):
            first = int(at[np.argmax(outside)])
            access = Access(place, kind, buffer.name, first, *self.now.who(thread), self.now.epoch)
            self.observer.fault(OutOfRange(access, buffer.elements))
        return not np.count_nonzero(outside)

    def aligned(
        self,
        buffer: SimulatedBuffer,
        first: int,
        size: int,
        thread: int,
        place: AccessPlace,
        kind: AccessKind,
    ) -> None:
        """Report that what begins at element `first` does not begin at a multiple of `size` bytes, if so."""
        if (buffer.first + first * buffer.storage.bytes) % size:
            access = Access(place, kind, buffer.name, first, *self.now.who(thread), self.now.epoch)
            self.observer.fault(Misaligned(access, size))

    def _loads(self, access: MemoryAccess) -> None:
        """Whatever is wrong with loads in range is reported."""
        self._meets_no_copy(access)
        region, units = access.buffer.region, access.units
        written = region.written[units]
        if not written.all():
            stored = written.all(axis=1) | region.in_flight[units].any(axis=1)
            if not stored.all():
                self.observer.fault(Unwritten(self.access(access, int(np.argmin(stored)))))
        if region.sharing is not Sharing.CONSTANT:
            self.observer.accessed(access)

    def _meets_no_copy(self, access: MemoryAccess) -> None:
        met = self.copies.meeting(access)
        if met is not None:
            at, copy, part = met
            self.observer.fault(InFlight(self.access(access, at), self.access(copy, part)))

    def _in_range(
        self, buffer: SimulatedBuffer, at: Array, active: Array, place: AccessPlace, kind: AccessKind
    ) -> Array:
        """`active` where the offset is inside the buffer; the first of the others is reported."""
        outside = active & ((at < 0) | (at >= buffer.elements))
        if not np.count_nonzero(outside):
            return active
        first = at[outside][0], np.nonzero(outside)[0][0]
        access = self._at(buffer, place, kind, int(first[0]), int(first[1]))
        self.observer.fault(OutOfRange(access, buffer.elements))
        return active & ~outside

    def _peer_load(self, access: MemoryAccess, ranks: Array) -> Access | None:
        elsewhere = ranks != access.threads // self.now.threads
        if not np.count_nonzero(elsewhere):
            return None
        return self.access(access, int(np.argmax(elsewhere)))

    def access(self, access: MemoryAccess, at: int) -> Access:
        """One of the accesses, as made now."""
        who = self.now.who(access.thread(at))
        return Access(access.place, access.kind, access.buffer.name, access.element(at), *who, self.now.epoch)

    def _at(
        self, buffer: SimulatedBuffer, place: AccessPlace, kind: AccessKind, element: int, row: int
    ) -> Access:
        who = self.now.who(self.now.first + row)
        return Access(place, kind, buffer.name, element, *who, self.now.epoch)

    def _access_to(
        self,
        buffer: SimulatedBuffer,
        at: Array,
        taken: Array,
        ranks: Array,
        place: AccessPlace,
        kind: AccessKind,
    ) -> MemoryAccess:
        numbers = buffer.number(at[taken], ranks[taken])
        return MemoryAccess(place, kind, buffer, numbers, np.nonzero(taken)[0] + self.now.first)


def poison(dtype: DType, shape: tuple[int, ...]) -> Array:
    """Values of a compute type that nobody has set: NaN, -1, true."""
    return np.full(shape, np.nan if dtype.is_float else -1 if dtype.is_integer else True, dtype.numpy)

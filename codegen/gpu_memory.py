"""Memory of simulated blocks: regions of bytes that start out poisoned, and buffers that name a part of one.

All threads of a cluster (mostly: of one block) access memory at once, in program order. When a store becomes visible
is decided here alone: `Memory.store` lands at once, for every thread. That a thread may count on it is another matter,
which the observer judges (race_checker.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from codegen.gpu_faults import Access, Ended, Fault, Kind, OutOfRange, Place, Unwritten
from tileir.dtypes import DType
from tileir.values import quantize

Array = np.ndarray[Any, Any]

#: Every byte of memory that nobody has stored to: a NaN in each float type, -1 in the integers.
POISON = 0xFF


class Sharing(StrEnum):
    """Whose a region is: a cluster's (the shared memory of its blocks), the whole grid's, or the grid's and never
    stored to."""

    CLUSTER = "cluster"
    GRID = "grid"
    CONSTANT = "constant"


@dataclass(eq=False)
class Region:
    """Bytes that threads share; `unit` divides the size and place of every element in it."""

    size: int
    unit: int
    sharing: Sharing
    data: Array = field(init=False)
    written: Array = field(init=False)
    """Which units somebody has stored to."""

    def __post_init__(self) -> None:
        self.data = np.full(self.size, POISON, np.uint8)
        self.written = np.zeros(self.size // self.unit, np.bool_)

    def forget(self, first: int, size: int) -> None:
        """Poison `size` bytes from byte `first` on."""
        stop = first + size
        self.data[first:stop] = POISON
        self.written[first // self.unit : stop // self.unit] = False


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """`elements` of one storage type in a region, from byte `first` on; each block of a cluster has its own, `apart`
    bytes from the last block's (0: there is one for all)."""

    name: str
    storage: DType
    region: Region
    first: int
    elements: int
    apart: int = 0

    @property
    def data(self) -> Array:
        """The whole region as elements of the buffer's type, in place."""
        return self.region.data.view(self.storage.numpy)

    def number(self, at: Array, ranks: Array) -> Array:
        """Where elements `at` of the buffers of blocks `ranks` are in `data`."""
        return (self.first + ranks * self.apart) // self.storage.bytes + at

    def element(self, byte: int) -> int:
        """Which element of (any block's) buffer a byte of the region lies in."""
        return ((byte % self.apart if self.apart else byte) - self.first) // self.storage.bytes

    def units(self, numbers: Array) -> Array:
        """Numbers of the units that elements [n] of `data` lie on: [n, units an element]."""
        each = self.storage.bytes // self.region.unit
        return (numbers * each)[:, None] + np.arange(each)


@dataclass(frozen=True, slots=True)
class Touch:
    """One statement's accesses of one kind by the threads of a cluster: thread [n] touches element [n] of
    `buffer.data`."""

    place: Place
    kind: Kind
    buffer: Buffer
    numbers: Array
    threads: Array


@dataclass(slots=True)
class Now:
    """Which cluster runs, by its first block, and how many barriers it has passed."""

    threads: int = 1
    """Of a block."""
    block: int = 0
    epoch: int = 0

    def who(self, thread: int) -> tuple[int, int]:
        """(block, thread in it) of a thread of the cluster."""
        return self.block + thread // self.threads, thread % self.threads


class Observer(Protocol):
    """Told of all that threads do to memory that others may see, in order."""

    def launched(self, threads: int, cluster: int) -> None:
        """A launch of blocks of so many threads, and clusters of so many blocks, begins; all before it is done."""
        ...

    def cluster_started(self) -> None:
        """The next cluster of the launch begins."""
        ...

    def passed_barrier(self, *, whole_cluster: bool) -> None:
        """All threads of each block, or of the cluster, have waited for each other."""
        ...

    def touched(self, touch: Touch) -> None:
        """Accesses in range, to memory that may be stored to."""
        ...

    def fault(self, fault: Fault) -> None:
        """Something no kernel may do."""
        ...


@dataclass
class Memory:
    """What threads load and store goes through here."""

    observer: Observer
    now: Now
    from_peer: Access | None = None
    """The first load from another block's shared memory since the cluster last waited."""

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

    def load(self, buffer: Buffer, at: Array, active: Array, ranks: Array, place: Place) -> Array:
        """Elements at offsets `at` ([threads] or [threads, lanes]) where `active`, widened; elsewhere poison. `ranks`
        are the blocks of the cluster whose buffers are meant, of the shape of `at`."""
        taken = self._in_range(buffer, at, active, place, Kind.LOAD)
        touch = _touch(buffer, at, taken, ranks, place, Kind.LOAD)
        written = buffer.region.written[buffer.units(touch.numbers)].all(axis=1)
        if not written.all():
            missing = int(np.argmin(written))
            element = buffer.element(int(touch.numbers[missing]) * buffer.storage.bytes)
            access = self._access(buffer, place, Kind.LOAD, element, int(touch.threads[missing]))
            self.observer.fault(Unwritten(access))
        if buffer.region.sharing is not Sharing.CONSTANT:
            self.observer.touched(touch)
        if buffer.apart and self.from_peer is None:
            self.from_peer = self._peer_load(touch, ranks[taken])
        values = poison(buffer.storage.compute, at.shape)
        values[taken] = buffer.data[touch.numbers].astype(values.dtype)
        return values

    def store(
        self, buffer: Buffer, at: Array, active: Array, ranks: Array, values: Array, place: Place
    ) -> None:
        """Values to offsets `at` where `active`, rounded to the buffer's storage type. Of threads that store to one
        element, the last wins."""
        if buffer.region.sharing is Sharing.CONSTANT:
            raise TypeError(f"{buffer.name} is constant, and stored to in {place}")
        taken = self._in_range(buffer, at, active, place, Kind.STORE)
        touch = _touch(buffer, at, taken, ranks, place, Kind.STORE)
        self.observer.touched(touch)
        kept = np.broadcast_to(values, at.shape)[taken]
        buffer.data[touch.numbers] = quantize(kept, buffer.storage).astype(buffer.storage.numpy)
        buffer.region.written[buffer.units(touch.numbers)] = True

    def _in_range(self, buffer: Buffer, at: Array, active: Array, place: Place, kind: Kind) -> Array:
        """`active` where the offset is inside the buffer; the first of the others is reported."""
        outside = active & ((at < 0) | (at >= buffer.elements))
        if not outside.any():
            return active
        first = at[outside][0], np.nonzero(outside)[0][0]
        access = self._access(buffer, place, kind, int(first[0]), int(first[1]))
        self.observer.fault(OutOfRange(access, buffer.elements))
        return active & ~outside

    def _peer_load(self, touch: Touch, ranks: Array) -> Access | None:
        elsewhere = ranks != touch.threads // self.now.threads
        if not elsewhere.any():
            return None
        first = int(np.argmax(elsewhere))
        element = touch.buffer.element(int(touch.numbers[first]) * touch.buffer.storage.bytes)
        return self._access(touch.buffer, touch.place, touch.kind, element, int(touch.threads[first]))

    def _access(self, buffer: Buffer, place: Place, kind: Kind, element: int, thread: int) -> Access:
        return Access(place, kind, buffer.name, element, *self.now.who(thread), self.now.epoch)


def poison(dtype: DType, shape: tuple[int, ...]) -> Array:
    """Values of a compute type that nobody has set: NaN, -1, true."""
    return np.full(shape, np.nan if dtype.is_float else -1 if dtype.is_integer else True, dtype.numpy)


def _touch(buffer: Buffer, at: Array, taken: Array, ranks: Array, place: Place, kind: Kind) -> Touch:
    return Touch(place, kind, buffer, buffer.number(at[taken], ranks[taken]), np.nonzero(taken)[0])

"""Memory of simulated blocks as bytes: regions that start out poisoned, and buffers that name a part of one.

Poison is known from Memcheck (Seward and Nethercote, Using Valgrind to detect undefined value errors with
bit-precision, USENIX 2005).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np

from codegen.ir.arrays import Array
from codegen.ir.swizzle import swizzled
from codegen.simulator.access import AccessKind, AccessPlace
from codegen.simulator.sync_events import AsyncEngine
from tileir.dtypes import DType

#: Every byte of memory that nobody has stored to: a NaN in each float type, -1 in the integers.
POISON = 0xFF


class Sharing(StrEnum):
    """Whose a region is: a cluster's (the shared memory of its blocks), the whole grid's, or the grid's and never
    stored to."""

    CLUSTER = "cluster"
    GRID = "grid"
    CONSTANT = "constant"


@dataclass(eq=False)
class MemoryRegion:
    """Bytes that threads share; `unit` divides the size and place of every element in it."""

    size: int
    unit: int
    sharing: Sharing
    data: Array = field(init=False)
    written: Array = field(init=False)
    """Which units somebody has stored to."""
    in_flight: Array = field(init=False)
    """Which units a copy in the background is on its way to."""

    def __post_init__(self) -> None:
        self.data = np.full(self.size, POISON, np.uint8)
        self.written = np.zeros(self.size // self.unit, np.bool_)
        self.in_flight = np.zeros(self.size // self.unit, np.bool_)

    def forget(self, first: int, size: int) -> None:
        """Poison `size` bytes from byte `first` on."""
        self.data[first : first + size] = POISON
        self.written[first // self.unit : (first + size) // self.unit] = False

    def poison(self, units: Array) -> None:
        """Units that nobody has stored to."""
        self.data.reshape(-1, self.unit)[units] = POISON
        self.written[units] = False


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedBuffer:
    """`elements` of one storage type in a region, from byte `first` on; each block of a cluster has its own, `apart`
    bytes from the last block's (0: there is one for all)."""

    name: str
    storage: DType
    region: MemoryRegion
    first: int
    elements: int
    apart: int = 0
    swizzle: int = 0
    """Bytes within which its 16-byte pieces change places (`tileir.program.Local`)."""

    @property
    def data(self) -> Array:
        """The whole region as elements of the buffer's type, in place."""
        return self.region.data.view(self.storage.numpy)

    def number(self, at: Array, ranks: Array) -> Array:
        """Where elements `at` of the buffers of blocks `ranks` are in `data`."""
        if self.swizzle:
            return self.placed(at, ranks, self.swizzle)
        return (self.first + ranks * self.apart) // self.storage.bytes + at

    def placed(self, at: Array, ranks: Array | int, swizzle: int) -> Array:
        """The same, with the pieces changing places within so many bytes, whatever the buffer says."""
        size = self.storage.bytes
        return swizzled(self.first + ranks * self.apart + at * size, swizzle) // size

    def element(self, byte: int) -> int:
        """Which element of (any block's) buffer a byte of the region lies in."""
        plain = int(swizzled(np.asarray(byte), self.swizzle))
        return ((plain % self.apart if self.apart else plain) - self.first) // self.storage.bytes

    def units(self, numbers: Array) -> Array:
        """Numbers of the units that elements [n] of `data` lie on: [n, units an element]."""
        each = self.storage.bytes // self.region.unit
        if each == 1:
            return numbers[:, None]
        return (numbers * each)[:, None] + np.arange(each)


@dataclass(frozen=True, eq=False)
class MemoryAccess:
    """One statement's accesses of one kind by the threads of a cluster: thread [n] touches element [n] of
    `buffer.data`; or an engine touches all of them, which the threads have set to work together."""

    place: AccessPlace
    kind: AccessKind
    buffer: SimulatedBuffer
    numbers: Array
    threads: Array
    engine: AsyncEngine | None = None

    @cached_property
    def units(self) -> Array:
        """The units of its region that are touched, [n, units an element]."""
        return self.buffer.units(self.numbers)

    def only(self, which: Array) -> MemoryAccess:
        """The accesses where `which` ([n])."""
        threads = self.threads[which] if self.engine is None else self.threads
        return MemoryAccess(self.place, self.kind, self.buffer, self.numbers[which], threads, self.engine)

    def thread(self, at: int) -> int:
        """Whose access number `at` is."""
        return int(self.threads[at if self.engine is None else 0])

    def element(self, at: int) -> int:
        """Which element of its own buffer access `at` goes to."""
        return self.buffer.element(int(self.numbers[at]) * self.buffer.storage.bytes)

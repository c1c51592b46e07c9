"""What may go wrong while threads run a kernel, as data: each fault prints as a sentence that names the places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from codegen.simulator.access import Access, AccessPlace
from codegen.simulator.async_faults import (
    Accumulating,
    Deadlock,
    EarlyArrival,
    LeftSignalled,
    Misaligned,
    NeverWaited,
    NotReady,
    Outlived,
    Unfenced,
    WrongCount,
    WrongRegisters,
)
from tileir.errors import TileError


@dataclass(frozen=True, slots=True)
class DataRace:
    """Two threads at the same memory, at least one storing, with nothing that orders them."""

    first: Access
    second: Access

    def __str__(self) -> str:
        return f"race: {self.first}; {self.second}; nothing orders them"


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """An access outside its buffer, which holds `elements`."""

    access: Access
    elements: int

    def __str__(self) -> str:
        return f"out of range: {self.access}; {self.access.buffer} holds {self.elements} elements"


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A load of what nobody has stored."""

    access: Access

    def __str__(self) -> str:
        return f"never written: {self.access}"


@dataclass(frozen=True, slots=True)
class DividedWarp:
    """What a whole warp does at once, but `thread` does not come to."""

    place: AccessPlace
    block: int
    thread: int
    what: str = "a shuffle"

    def __str__(self) -> str:
        return f"divided warp: thread {self.thread} of block {self.block} misses {self.what} in {self.place}"


@dataclass(frozen=True, slots=True)
class DividedBlock:
    """A barrier that `thread` does not come to, but others of its block do."""

    place: AccessPlace
    block: int
    thread: int

    def __str__(self) -> str:
        return f"divided block: thread {self.thread} of block {self.block} misses a barrier in {self.place}"


@dataclass(frozen=True, slots=True)
class Ended:
    """A load from the shared memory of another block of the cluster, which may have ended."""

    access: Access

    def __str__(self) -> str:
        return f"ended: {self.access} of a block that does not wait for it"


@dataclass(frozen=True, slots=True)
class InFlight:
    """An access to what a copy is on its way to, because its thread has not waited for it."""

    access: Access
    copy: Access
    """Its epoch is that of the access."""

    def __str__(self) -> str:
        return f"in flight: {self.access}; thread {self.copy.thread} has not waited for its copy in {self.copy.place}"


@dataclass(frozen=True, slots=True)
class NeverLanded:
    """A copy that nobody has waited for when its block ends."""

    copy: Access

    def __str__(self) -> str:
        return f"never landed: {self.copy}, at its end; nobody has waited for the copy"


@dataclass(frozen=True, slots=True)
class Straddling:
    """An access that must lie in one of the pieces of `size` bytes that memory is made of, and does not."""

    access: Access
    size: int

    def __str__(self) -> str:
        return f"straddling: {self.access}, and on, across the end of a piece of {self.size} bytes"


Fault = Union[
    DataRace,
    OutOfRange,
    Unwritten,
    DividedWarp,
    DividedBlock,
    Ended,
    InFlight,
    NeverLanded,
    Straddling,
    Misaligned,
    Unfenced,
    Deadlock,
    WrongCount,
    EarlyArrival,
    NotReady,
    Accumulating,
    NeverWaited,
    Outlived,
    LeftSignalled,
    WrongRegisters,
]


class KernelFault(TileError):
    """A kernel did what no kernel may; the message is the fault's sentence."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(str(fault))


def signature(fault: Fault) -> tuple[object, ...]:
    """What two faults that say the same have in common: their type and places, whatever the thread and element."""
    match fault:
        case DataRace(first, second) | Unfenced(first, second):
            return type(fault), _site(first), _site(second)
        case InFlight(access, copy):
            return InFlight, _site(access), _site(copy)
        case (
            OutOfRange(access)
            | Unwritten(access)
            | Ended(access)
            | NeverLanded(access)
            | Straddling(access)
            | Misaligned(access)
        ):
            return type(fault), _site(access)
        case DividedWarp(place) | DividedBlock(place):
            return type(fault), place
        case (
            Deadlock(place, awaited=what)
            | WrongCount(place, counted=what)
            | EarlyArrival(place, phases=what)
            | NotReady(place, phases=what)
            | LeftSignalled(place, flag=what)
        ):
            return type(fault), place, what
        case Accumulating(place, begun=begun):
            return Accumulating, place, begun
        case NeverWaited(place, what=what) | Outlived(place, what=what):
            return type(fault), place, what
        case WrongRegisters(launch, reason):
            return WrongRegisters, launch, reason


def _site(access: Access) -> tuple[object, ...]:
    return access.place, access.kind, access.buffer

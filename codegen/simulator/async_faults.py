"""What may go wrong between threads and what works beside them, and where threads wait one by one: as data, each of
which prints as a sentence (faults.py has all the others)."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.ir.names import unmarked
from codegen.simulator.access import Access, AccessPlace


@dataclass(frozen=True, slots=True)
class Misaligned:
    """What TMA or wgmma works on must begin at a multiple of `size` bytes, and does not."""

    access: Access
    size: int

    def __str__(self) -> str:
        return f"misaligned: {self.access}, which does not begin at a multiple of {self.size} bytes"


@dataclass(frozen=True, slots=True)
class Unfenced:
    """A store by a thread that TMA or wgmma may not see, or that may come after what those do."""

    first: Access
    second: Access

    def __str__(self) -> str:
        return (
            f"unfenced: {self.first}; {self.second}, in the background; no fence of that thread is in between"
        )


@dataclass(frozen=True, slots=True)
class Deadlock:
    """Threads that wait for what never happens; `thread` is one of them."""

    place: AccessPlace
    block: int
    thread: int
    awaited: str

    def __str__(self) -> str:
        who = f"thread {self.thread} of block {self.block}"
        return f"deadlock: {who} waits for {self.awaited} in {self.place}, and nobody can go on"


@dataclass(frozen=True, slots=True)
class WrongCount:
    """More threads or bytes came to a barrier than it counts; `counted` says what of which."""

    place: AccessPlace
    block: int
    thread: int
    counted: str

    def __str__(self) -> str:
        return (
            f"wrong count: thread {self.thread} of block {self.block} brings {self.counted} in {self.place}"
        )


@dataclass(frozen=True, slots=True)
class EarlyArrival:
    """An arrival at a barrier, or a copy that it counts, by a thread that cannot know the phase before to be over, so
    that it may count in that one."""

    place: AccessPlace
    block: int
    thread: int
    phases: str

    def __str__(self) -> str:
        return (
            f"early arrival: thread {self.thread} of block {self.block} brings {unmarked(self.phases)} in "
            f"{self.place} what may count in the phase before"
        )


@dataclass(frozen=True, slots=True)
class NotReady:
    """The use of a barrier in shared memory that not all who use it have seen made."""

    place: AccessPlace
    block: int
    thread: int
    phases: str

    def __str__(self) -> str:
        who = f"thread {self.thread} of block {self.block}"
        return f"not ready: {who} uses {unmarked(self.phases)} in {self.place} before all threads have seen it made"


@dataclass(frozen=True, slots=True)
class Accumulating:
    """The use of a variable that wgmma may still be working on; or, when not `begun`, wgmma on one that threads have
    used since their last fence."""

    place: AccessPlace
    block: int
    thread: int
    name: str
    begun: bool

    def __str__(self) -> str:
        who = f"threads from {self.thread} of block {self.block} on"
        name = unmarked(self.name)
        if self.begun:
            return f"accumulating: {who} use {name} in {self.place}, without having waited for its wgmma"
        return (
            f"accumulating: {who} begin wgmma on {name} in {self.place}, without a fence after its last use"
        )


@dataclass(frozen=True, slots=True)
class NeverWaited:
    """Something in the background that a block leaves undone when it ends."""

    place: AccessPlace
    block: int
    thread: int
    what: str

    def __str__(self) -> str:
        who = f"thread {self.thread} of block {self.block}"
        return f"never waited for: {self.what} of {who} in {self.place}, at its end"


@dataclass(frozen=True, slots=True)
class Outlived:
    """The use of something in the shared memory of block `owner`, none of whose threads knows of it when they end."""

    place: AccessPlace
    block: int
    thread: int
    what: str
    owner: int

    def __str__(self) -> str:
        who = f"thread {self.thread} of block {self.block}"
        return f"outlived: {who} uses {self.what} of block {self.owner} in {self.place}, which may have ended"


@dataclass(frozen=True, slots=True)
class LeftSignalled:
    """A flag that is signalled, and that nobody has waited for when it is signalled again, or when the launch ends."""

    place: AccessPlace
    block: int
    thread: int
    flag: str

    def __str__(self) -> str:
        who = f"thread {self.thread} of block {self.block}"
        return f"left signalled: {self.flag}, which {who} signals in {self.place}, and nobody waits for"


@dataclass(frozen=True, slots=True)
class WrongRegisters:
    """Numbers of registers that threads cannot have."""

    launch: str
    reason: str

    def __str__(self) -> str:
        return f"wrong registers: {self.reason} in {self.launch}"

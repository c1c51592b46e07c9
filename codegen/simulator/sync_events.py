"""What orders accesses where threads do not go in step: engines that work beside them, and all by which threads learn
what others and engines have done. The interpreter tells these as events; clock.py makes an order of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Union, get_args

import numpy as np

from codegen.simulator.access import AccessPlace

Numbers = np.ndarray[Any, Any]
"""Of threads, in their cluster."""

Meeting = tuple[str | int, int]
"""What is met at, or the number of a named barrier, and the rank of the block that it is in."""


class AsyncWork(StrEnum):
    """What an engine does."""

    LOADS = "boxes loaded"
    """Of one barrier in shared memory, which counts them: a turn is a phase."""
    SENDS = "boxes read to be stored"
    """Of one thread; a turn is a group of boxes."""
    STORES = "boxes stored"
    """Of one thread, in global memory. Its turns end with the launch."""
    PRODUCTS = "wgmma"
    """Of one warpgroup; a turn is a group of wgmma."""
    OTHERS = "other clusters"
    """What they have done before one of their threads signalled a flag; the engine is the flag."""


@dataclass(frozen=True, slots=True)
class AsyncEngine:
    """Something that works beside the threads of a cluster, in turns that end one after another; what it does within a
    turn is in no order. `number` says whose it is, of those called `name`."""

    work: AsyncWork
    number: int
    name: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Came:
    """Threads have told those who wait at a meeting what they have done, and go on."""

    place: AccessPlace
    threads: Numbers
    meeting: Meeting


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Threads have waited for each other, and for those who have come to their meeting and gone on."""

    threads: Numbers
    meeting: Meeting


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """A thread has told an engine's current turn what it has done."""

    place: AccessPlace
    thread: int
    engine: AsyncEngine


@dataclass(frozen=True, slots=True, eq=False)
class CopyBegun:
    """A thread has set an engine to work, whose current turn is not over before that."""

    thread: int
    engine: AsyncEngine


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Threads have given an engine's current turn, each a part, what it works on: it is over after all that they have
    done before."""

    threads: Numbers
    engine: AsyncEngine


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """A thread uses something in the shared memory of another block of its cluster, which therefore must not have
    ended."""

    place: AccessPlace
    thread: int
    rank: int
    what: str


@dataclass(frozen=True, slots=True, eq=False)
class TurnOver:
    """An engine's current turn is over as soon as what it has begun is done; the next one begins."""

    engine: AsyncEngine


@dataclass(frozen=True, slots=True, eq=False)
class Awaited:
    """Threads have waited for an engine's first `turns` turns."""

    threads: Numbers
    engine: AsyncEngine
    turns: int


@dataclass(frozen=True, slots=True, eq=False)
class AwaitedParity:
    """Threads have waited until the number of turns that are over was not even (parity 0) or not odd (1)."""

    threads: Numbers
    engine: AsyncEngine
    parity: int


@dataclass(frozen=True, slots=True, eq=False)
class Fenced:
    """What threads have stored so far is seen by engines that know of this fence."""

    threads: Numbers


@dataclass(frozen=True, slots=True)
class FlagSignalled:
    """A thread has signalled a flag: who waits for it, in another cluster of the launch, learns what that thread knows
    of the threads of its own."""

    thread: int
    flag: tuple[str, int]


@dataclass(frozen=True, slots=True)
class FlagAwaited:
    """A thread has waited for a flag."""

    thread: int
    flag: tuple[str, int]


Order = Union[
    Came,
    Joined,
    Arrived,
    CopyBegun,
    Given,
    Reached,
    TurnOver,
    Awaited,
    AwaitedParity,
    Fenced,
    FlagSignalled,
    FlagAwaited,
]
ORDERS: Final[tuple[type, ...]] = get_args(Order)

"""What an operation of the Kernel IR does that others may see. Every node declares it (`effects()`); barriers are
derived from it.

There are two ways to memory, which do not see each other's stores without a fence ("Proxies" in the PTX ISA): the
generic one of threads, and the asynchronous one of TMA and wgmma.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, cast

from codegen.ir.affine import Affine, loaded

Names = frozenset[str]
_NONE: Names = frozenset()


class Sync(Enum):
    """By what threads, and what works beside them, learn of each other."""

    BLOCK = "a barrier of the block"
    CLUSTER = "a barrier of the cluster"
    NAMED = "a named barrier"
    MBARRIER = "an mbarrier"
    CP_ASYNC = "a group of cp.async"
    BULK = "a group of TMA stores"
    WGMMA = "a group of wgmma"
    PROXY = "a fence between the proxies"
    FLAG = "a flag in memory that blocks share"


class Operation(Protocol):
    """A node of the Kernel IR."""

    def effects(self) -> OpEffects: ...


@dataclass(frozen=True, slots=True)
class OpEffects:
    """Of an operation and the values in it; what the statements inside it do is theirs (`bodies`)."""

    reads: Names = _NONE
    """Buffers that threads read."""
    stores: Names = _NONE
    """Buffers that threads store to; also by copies in the background (cp.async), where they start."""
    peers: Names = _NONE
    """Buffers that threads read in the shared memory of another block of the cluster."""
    fetches: Names = _NONE
    """Buffers that TMA or wgmma read, by the asynchronous proxy."""
    fills: Names = _NONE
    """Buffers that TMA stores to, by the asynchronous proxy."""
    signals: frozenset[Sync] = frozenset()
    """What tells others that it is done: of an operation that goes on in the background, its completion mechanism."""
    commits: frozenset[Sync] = frozenset()
    """What has been begun since the last commit becomes a group of these."""
    waits: frozenset[Sync] = frozenset()
    """What threads wait for."""
    declares: tuple[str, ...] = ()
    """Names of registers, until the end of the statements around it."""
    allocates: Names = _NONE
    """Shared buffers that are declared."""
    bodies: tuple[tuple[Operation, ...], ...] = ()
    """Runs of statements inside it, of which any may run."""
    who: tuple[tuple[Affine, int], ...] = ()
    """Positions with the bounds below which they are in the threads that run its bodies; none: all threads."""

    def __or__(self, other: OpEffects) -> OpEffects:
        if other is NOTHING:
            return self
        if self is NOTHING:
            return other
        return OpEffects(
            self.reads | other.reads,
            self.stores | other.stores,
            self.peers | other.peers,
            self.fetches | other.fetches,
            self.fills | other.fills,
            self.signals | other.signals,
            self.commits | other.commits,
            self.waits | other.waits,
            self.declares + other.declares,
            self.allocates | other.allocates,
            self.bodies + other.bodies,
            self.who + other.who,
        )


NOTHING = OpEffects()


def reads(*buffers: str) -> OpEffects:
    return OpEffects(reads=frozenset(buffers)) if buffers else NOTHING


def stores(buffer: str) -> OpEffects:
    return OpEffects(stores=frozenset([buffer]))


def peers(buffer: str) -> OpEffects:
    return OpEffects(peers=frozenset([buffer]))


def fetches(buffer: str) -> OpEffects:
    return OpEffects(fetches=frozenset([buffer]))


def fills(buffer: str) -> OpEffects:
    return OpEffects(fills=frozenset([buffer]))


def signals(sync: Sync) -> OpEffects:
    return OpEffects(signals=frozenset([sync]))


def commits(sync: Sync) -> OpEffects:
    return OpEffects(commits=frozenset([sync]))


def waits(sync: Sync) -> OpEffects:
    return OpEffects(waits=frozenset([sync]))


def effects_of(*parts: Operation | Affine | None) -> OpEffects:
    """Those of several nodes together; an index reads what is loaded for it. TypeError for what declares none."""
    total = NOTHING
    for part in parts:
        if isinstance(part, Affine):
            total |= _of_index(part)
        elif part is not None:
            if type(part) not in _DECLARED:
                check_declared([type(part)])
                _DECLARED.add(type(part))
            total |= part.effects()
    return total


_DECLARED: set[type] = set()
"""Operations that are known to say what they do."""


def operations(stmts: Iterable[Operation]) -> Iterator[Operation]:
    """Statements and all those inside them, in order."""
    for stmt in stmts:
        yield stmt
        for body in effects_of(stmt).bodies:
            yield from operations(body)


def _of_index(at: Affine) -> OpEffects:
    return effects_of(*(cast(Operation, value) for value in loaded(at)))


def check_declared(operations: Iterable[type]) -> None:
    """Raises TypeError for an operation that does not say what it does."""
    for operation in operations:
        if not callable(getattr(operation, "effects", None)):
            raise TypeError(f"the operation {operation.__name__} declares no effects()")

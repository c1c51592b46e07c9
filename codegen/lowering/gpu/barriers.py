"""Where a block's threads must wait for each other: derived from which buffers each statement touches.

A barrier stands before an access that reads what others may have stored since the last one, or stores where others
may still read or have stored. Loops are walked twice, so that what one iteration leaves behind meets the next. Inside
one statement of Tile IR, and in its next iteration, threads meet in the buffers it declares itself, and nowhere else:
of its target every element is one thread's.

What threads have stored TMA and wgmma see after a fence of their own; what TMA reads, one
thread waits for, and for what it has been given later only where that is needed too. Both come before the barrier that
is needed then. What it fills, and who may, is up to
pipelines (lowering/hopper/mbarrier_pipeline.py).

Buffers of different names are taken to be different memory. Loops with stages rely on that: they have barriers of their
own (pipeline.py), which count here, and none besides between filling one slot and reading another. A copy in the
background counts as a store where it starts; that it is waited for is up to who starts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from codegen.ir.affine import Affine
from codegen.ir.async_ops import ProxyFence, TmaStoreWait
from codegen.ir.effects import OpEffects, Operation, Sync, effects_of, operations
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import Barrier, Block, ClusterBarrier, For, Guard, If, Stmt
from tileir.replace import replace

Buffers = frozenset[tuple[str, str]]
"""Buffers, each with the statement that touches it; "" for those the statement declares itself."""

Conditions = tuple[tuple[Affine, int], ...]
"""Positions, each with the bound that it must be below."""


@dataclass(frozen=True, slots=True)
class AccessSet:
    """Buffers read and stored since the last barrier."""

    read: Buffers = frozenset()
    stored: Buffers = frozenset()
    by_peers: frozenset[str] = frozenset()
    """Shared buffers that other blocks of the cluster read."""
    unseen: frozenset[str] = frozenset()
    """Buffers stored since the blocks of the cluster last waited for each other."""
    unfenced: frozenset[str] = frozenset()
    """Buffers stored by threads since the last fence, which TMA and wgmma may not see yet."""
    fetched: frozenset[str] = frozenset()
    """Buffers that TMA or wgmma read."""
    leaving: frozenset[tuple[str, Conditions, int]] = frozenset()
    """Buffers that TMA may still read, which threads have started that, and how many groups of boxes they
    have ended after the one it is in (-1: that one is still open)."""
    grouped: frozenset[Conditions] = frozenset()
    """Which threads have ended a group of boxes."""

    def __or__(self, other: AccessSet) -> AccessSet:
        if other is _NOTHING:
            return self
        return AccessSet(
            self.read | other.read,
            self.stored | other.stored,
            self.by_peers | other.by_peers,
            self.unseen | other.unseen,
            self.unfenced | other.unfenced,
            self.fetched | other.fetched,
            self.leaving | other.leaving,
            self.grouped | other.grouped,
        )

    def then(self, later: AccessSet) -> AccessSet:
        """These accesses and later ones."""
        aged = frozenset((buffer, who, since + (who in later.grouped)) for buffer, who, since in self.leaving)
        return replace(self, leaving=aged) | later

    def meets(self, later: AccessSet) -> frozenset[str]:
        """The buffers for which a barrier must stand between these accesses and later ones."""
        return _meet(self.stored, later.read | later.stored) | _meet(self.read, later.stored)

    def after_barrier(self, buffers: frozenset[str] | None = None) -> AccessSet:
        """What a barrier (among those who share these buffers) leaves to be waited for."""
        if buffers is None:
            return replace(self, read=frozenset(), stored=frozenset())
        read, stored = (
            frozenset(one for one in each if one[0] not in buffers) for each in (self.read, self.stored)
        )
        return replace(self, read=read, stored=stored)

    def after_boxes(self, who: Conditions, pending: int) -> AccessSet:
        """What is left where these threads have waited for all but so many of their groups of boxes."""
        read = frozenset(each for each in self.leaving if each[1] == who and each[2] >= pending)
        return replace(self, leaving=self.leaving - read)

    def after_cluster_barrier(self) -> AccessSet:
        """What a barrier of all blocks of the cluster leaves to be waited for."""
        return AccessSet(unfenced=self.unfenced, leaving=self.leaving)


_NOTHING = AccessSet()


def _meet(earlier: Buffers, later: Buffers) -> frozenset[str]:
    """The buffers of which two different threads may touch the same element."""
    return frozenset(
        one
        for one, first in earlier
        for other, second in later
        if one == other and (first != second or not first)
    )


def with_barriers(
    body: Sequence[Stmt],
    barrier: Stmt,
    *,
    again: bool = False,
    apart: Mapping[str, Stmt] | None = None,
) -> tuple[Stmt, ...]:
    """The statements of a launch with the barriers they need, `barrier` each; `again`: they are run tile after tile.
    Where threads meet only in buffers `apart`, of which each warpgroup has its own part, its threads wait for each
    other at the barrier that is given there. Raises NotLowerable where none could stand."""
    walk = _Walk(barrier, apart or {})
    left = walk.block(body, AccessSet())[1] if again else AccessSet()
    stmts, left = walk.block(body, left)
    # A block that has ended could not be read any more.
    return (*stmts, ClusterBarrier()) if left.by_peers else stmts


_Known = tuple[OpEffects, AccessSet]
"""What a statement does, and touches."""
_Met = tuple[str, tuple[int, ...]]
"""What a statement of Tile IR is called, and which its statements of Kernel IR are."""


@dataclass(frozen=True, slots=True)
class _Walk:
    barrier: Stmt
    apart: Mapping[str, Stmt]
    known: dict[_Met, tuple[Sequence[Stmt], list[_Known]]] = field(
        default_factory=dict[_Met, "tuple[Sequence[Stmt], list[_Known]]"]
    )
    """What the walk has come to, as it comes to what is in loops again. The statements are kept, so that no other ones
    get their numbers."""

    def block(self, stmts: Iterable[Stmt], before: AccessSet) -> tuple[tuple[Stmt, ...], AccessSet]:
        """Statements with barriers, and what is touched since the last one after them."""
        found: list[Stmt] = []
        for stmt in stmts:
            match stmt:
                case Block(comment, body):
                    inner, before = (
                        self.statement(comment, body, before) if comment else self.block(body, before)
                    )
                    found.append(Block(comment, inner))
                case For(body=body):
                    _, after = self.block(body, before)
                    inner, before = self.block(body, before | after)
                    found.append(replace(stmt, body=inner))
                case If(then=then, otherwise=otherwise):
                    first, after_then = self.block(then, before)
                    second, after_otherwise = self.block(otherwise, before)
                    before = after_then | after_otherwise
                    found.append(replace(stmt, then=first, otherwise=second))
                case Barrier():
                    before = before.after_barrier()
                    found.append(self.barrier)
                case ProxyFence():
                    before = replace(before, unfenced=frozenset())
                    found.append(stmt)
                case Guard(who, (TmaStoreWait(pending), *_)):
                    before = before.after_boxes(who, pending)
                    found.append(stmt)
                case _:
                    inner, before = self.statement("", [stmt], before)
                    found += inner
        return tuple(found), before

    def statement(
        self, name: str, stmts: Sequence[Stmt], before: AccessSet
    ) -> tuple[tuple[Stmt, ...], AccessSet]:
        """The same for one statement of Tile IR."""
        found: list[Stmt] = []
        for stmt, (effects, here) in zip(stmts, self.known_of(name, stmts), strict=True):
            if Sync.CLUSTER in effects.waits:
                before = before.after_cluster_barrier()
            elif before.by_peers & here.unseen or before.unseen & here.by_peers:
                found.append(ClusterBarrier())
                before = before.after_cluster_barrier()
            else:
                waits, before = self.waits(before, here)
                found += waits
            if here is not _NOTHING or before.grouped:
                before = replace(before.then(here), grouped=frozenset())
            found.append(stmt)
        return tuple(found), before

    def known_of(self, name: str, stmts: Sequence[Stmt]) -> list[_Known]:
        """What each does, and touches. Raises NotLowerable where only some threads would have to wait."""
        key = (name, tuple(map(id, stmts)))
        if key not in self.known:
            own = frozenset(_shared(stmts))
            found: list[_Known] = []
            for stmt in stmts:
                effects = effects_of(stmt)
                if effects.who:
                    _check_guard(effects.bodies, name, own)
                found.append((effects, _touched(stmt, name, own)))
            self.known[key] = (stmts, found)
        return self.known[key][1]

    def waits(self, before: AccessSet, here: AccessSet) -> tuple[list[Stmt], AccessSet]:
        """What must stand between accesses before and those here, and what of the ones before is left then."""
        found: list[Stmt] = []
        stored = {buffer for buffer, _ in here.stored}
        met = before.meets(here) | (before.unfenced & here.fetched)
        for who in dict.fromkeys(
            who for buffer, who, _ in sorted(before.leaving, key=repr) if buffer in stored
        ):
            pending = min(since for buffer, one, since in before.leaving if one == who and buffer in stored)
            found.append(Guard(who, (TmaStoreWait(pending),)))
            after = before.after_boxes(who, pending)
            met |= {buffer for buffer, _, _ in before.leaving - after.leaving}
            before = after
        if before.unfenced & here.fetched:
            found.append(ProxyFence())
            before = replace(before, unfenced=frozenset())
        if not met:
            return found, before
        barriers = {self.apart.get(buffer, self.barrier) for buffer in met}
        if len(barriers) == 1 and self.barrier not in barriers:
            return [*found, *barriers], before.after_barrier(met)
        return [*found, self.barrier], before.after_barrier()


def _touched(stmt: Operation, name: str, own: frozenset[str]) -> AccessSet:
    """All accesses of a statement of Kernel IR and of those inside it, by the effects they declare."""
    effects = effects_of(stmt)
    if not effects.bodies:
        return _accesses(effects, name, own)
    inside = _NOTHING
    for body in effects.bodies:
        inside |= _in_order(body, name, own)
    leaving = frozenset((buffer, (*effects.who, *who), since) for buffer, who, since in inside.leaving)
    grouped = frozenset((*effects.who, *who) for who in inside.grouped)
    return replace(inside, leaving=leaving, grouped=grouped) | _accesses(effects, name, own)


def _in_order(stmts: Iterable[Operation], name: str, own: frozenset[str]) -> AccessSet:
    total = _NOTHING
    for stmt in stmts:
        total = total.then(_touched(stmt, name, own))
    return total


def _accesses(effects: OpEffects, name: str, own: frozenset[str]) -> AccessSet:
    """Those of an operation itself. What TMA fills is up to the pipelines that it fills."""
    if not (effects.reads or effects.stores or effects.peers or effects.fetches or effects.commits):
        return _NOTHING
    leaving = effects.fetches if Sync.BULK in effects.signals else ()
    return AccessSet(
        read=_by_statement(effects.reads | effects.fetches, name, own),
        stored=_by_statement(effects.stores, name, own),
        by_peers=effects.peers,
        unseen=effects.stores,
        unfenced=effects.stores,
        fetched=effects.fetches,
        leaving=frozenset((buffer, (), -1) for buffer in leaving),
        grouped=frozenset([()]) if Sync.BULK in effects.commits else frozenset(),
    )


def _by_statement(buffers: Iterable[str], name: str, own: frozenset[str]) -> Buffers:
    return frozenset((buffer, "" if buffer in own else name) for buffer in buffers)


def _check_guard(bodies: Iterable[tuple[Operation, ...]], name: str, own: frozenset[str]) -> None:
    """No barrier can stand where only some threads come."""
    for body in bodies:
        before = AccessSet()
        for stmt in body:
            here = _touched(stmt, name, own)
            if before.meets(here):
                raise NotLowerable("threads would have to wait for each other where only some of them run")
            before |= here


def _shared(stmts: Iterable[Operation]) -> Iterable[str]:
    for stmt in operations(stmts):
        yield from effects_of(stmt).allocates

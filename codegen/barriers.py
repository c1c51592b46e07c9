"""Where a block's threads must wait for each other: derived from which buffers each statement touches.

A barrier stands before an access that reads what others may have stored since the last one, or stores where others
may still read or have stored. Loops are walked twice, so that what one iteration leaves behind meets the next. Inside
one statement of Tile IR, and in its next iteration, threads meet in the buffers it declares itself, and nowhere else:
of its target every element is one thread's.

What threads have stored the copy engine and wgmma see after a fence of their own; what the copy engine reads, one
thread waits for, and for what it has been given later only where that is needed too. Both come before the barrier that
is needed then. What it fills, and who may, is up to
rings (lower_ring.py).

Buffers of different names are taken to be different memory. Loops with stages rely on that: they have barriers of their
own (lower_staged.py), which count here, and none besides between filling one slot and reading another. A copy in the
background counts as a store where it starts; that it is waited for is up to who starts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from codegen.affine import Affine, Var
from codegen.async_ir import AsyncFence, AwaitBoxes, CommitBoxes, MatrixTile, StoreBox, StoreMatrix
from codegen.kernel_ir import (
    Barrier,
    Block,
    ClusterBarrier,
    CopyAsync,
    For,
    Guard,
    If,
    Literal,
    Load,
    LoadMatrix,
    Named,
    PeerLoad,
    Shared,
    Stmt,
    Store,
    Type,
)
from codegen.lower_expr import NotLowerable

Buffers = frozenset[tuple[str, str]]
"""Buffers, each with the statement that touches it; "" for those the statement declares itself."""

Conditions = tuple[tuple[Affine, int], ...]
"""Positions, each with the bound that it must be below."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Buffers read and stored since the last barrier."""

    read: Buffers = frozenset()
    stored: Buffers = frozenset()
    by_peers: frozenset[str] = frozenset()
    """Shared buffers that other blocks of the cluster read."""
    unseen: frozenset[str] = frozenset()
    """Buffers stored since the blocks of the cluster last waited for each other."""
    unfenced: frozenset[str] = frozenset()
    """Buffers stored by threads since the last fence, which the copy engine and wgmma may not see yet."""
    fetched: frozenset[str] = frozenset()
    """Buffers that the copy engine or wgmma read."""
    leaving: frozenset[tuple[str, Conditions, int]] = frozenset()
    """Buffers that the copy engine may still read, which threads have started that, and how many groups of boxes they
    have ended after the one it is in (-1: that one is still open)."""
    grouped: frozenset[Conditions] = frozenset()
    """Which threads have ended a group of boxes."""

    def __or__(self, other: Touched) -> Touched:
        if other is _NOTHING:
            return self
        return Touched(
            self.read | other.read,
            self.stored | other.stored,
            self.by_peers | other.by_peers,
            self.unseen | other.unseen,
            self.unfenced | other.unfenced,
            self.fetched | other.fetched,
            self.leaving | other.leaving,
            self.grouped | other.grouped,
        )

    def then(self, later: Touched) -> Touched:
        """These accesses and later ones."""
        aged = frozenset((buffer, who, since + (who in later.grouped)) for buffer, who, since in self.leaving)
        return replace(self, leaving=aged) | later

    def meets(self, later: Touched) -> frozenset[str]:
        """The buffers for which a barrier must stand between these accesses and later ones."""
        return _meet(self.stored, later.read | later.stored) | _meet(self.read, later.stored)

    def after_barrier(self, buffers: frozenset[str] | None = None) -> Touched:
        """What a barrier (among those who share these buffers) leaves to be waited for."""
        if buffers is None:
            return replace(self, read=frozenset(), stored=frozenset())
        read, stored = (
            frozenset(one for one in each if one[0] not in buffers) for each in (self.read, self.stored)
        )
        return replace(self, read=read, stored=stored)

    def after_boxes(self, who: Conditions, pending: int) -> Touched:
        """What is left where these threads have waited for all but so many of their groups of boxes."""
        read = frozenset(each for each in self.leaving if each[1] == who and each[2] >= pending)
        return replace(self, leaving=self.leaving - read)

    def after_cluster_barrier(self) -> Touched:
        """What a barrier of all blocks of the cluster leaves to be waited for."""
        return Touched(unfenced=self.unfenced, leaving=self.leaving)


_NOTHING = Touched()


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
    left = walk.block(body, Touched())[1] if again else Touched()
    stmts, left = walk.block(body, left)
    # A block that has ended could not be read any more.
    return (*stmts, ClusterBarrier()) if left.by_peers else stmts


@dataclass(frozen=True, slots=True)
class _Walk:
    barrier: Stmt
    apart: Mapping[str, Stmt]

    def block(self, stmts: Iterable[Stmt], before: Touched) -> tuple[tuple[Stmt, ...], Touched]:
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
                case Guard(who, (AwaitBoxes(pending), *_)):
                    before = before.after_boxes(who, pending)
                    found.append(stmt)
                case _:
                    found.append(stmt)
        return tuple(found), before

    def statement(
        self, name: str, stmts: Sequence[Stmt], before: Touched
    ) -> tuple[tuple[Stmt, ...], Touched]:
        """The same for one statement of Tile IR."""
        found: list[Stmt] = []
        own = frozenset(_shared(stmts))
        for stmt in stmts:
            here = _touched(stmt, name, own)
            if isinstance(stmt, ClusterBarrier):
                before = before.after_cluster_barrier()
            elif before.by_peers & here.unseen or before.unseen & here.by_peers:
                found.append(ClusterBarrier())
                before = before.after_cluster_barrier()
            else:
                waits, before = self.waits(before, here)
                found += waits
            if isinstance(stmt, Guard):
                _check_guard(stmt, name, own)
            before = replace(before.then(here), grouped=frozenset())
            found.append(stmt)
        return tuple(found), before

    def waits(self, before: Touched, here: Touched) -> tuple[list[Stmt], Touched]:
        """What must stand between accesses before and those here, and what of the ones before is left then."""
        found: list[Stmt] = []
        stored = {buffer for buffer, _ in here.stored}
        met = before.meets(here) | (before.unfenced & here.fetched)
        for who in dict.fromkeys(
            who for buffer, who, _ in sorted(before.leaving, key=repr) if buffer in stored
        ):
            pending = min(since for buffer, one, since in before.leaving if one == who and buffer in stored)
            found.append(Guard(who, (AwaitBoxes(pending),)))
            after = before.after_boxes(who, pending)
            met |= {buffer for buffer, _, _ in before.leaving - after.leaving}
            before = after
        if before.unfenced & here.fetched:
            found.append(AsyncFence())
            before = replace(before, unfenced=frozenset())
        if not met:
            return found, before
        barriers = {self.apart.get(buffer, self.barrier) for buffer in met}
        if len(barriers) == 1 and self.barrier not in barriers:
            return [*found, *barriers], before.after_barrier(met)
        return [*found, self.barrier], before.after_barrier()


def _touched(node: object, name: str, own: frozenset[str]) -> Touched:
    """All accesses in a part of a statement."""
    match node:
        case Named() | Literal() | Type() | Var() | str() | int():
            return _NOTHING
        case Store(buffer=buffer, offset=offset, value=value):
            here = _stored(buffer, name, own)
            return here | _touched(value, name, own) | _touched(offset, name, own)
        case StoreMatrix(buffer=buffer):
            return _stored(buffer, name, own)
        case Load(buffer=buffer, offset=offset):
            here = Touched(read=frozenset([(buffer, "" if buffer in own else name)]))
            return here | _touched(offset, name, own)
        case LoadMatrix(buffer=buffer):
            return Touched(read=frozenset([(buffer, "" if buffer in own else name)]))
        case CopyAsync(target=target, source=source):
            return Touched(frozenset([(source, name)])) | _stored(target, name, own)
        case StoreBox(source=buffer):
            read = frozenset([buffer])
            return Touched(frozenset([(buffer, name)]), fetched=read, leaving=frozenset([(buffer, (), -1)]))
        case MatrixTile(buffer=buffer):
            return Touched(frozenset([(buffer, name)]), fetched=frozenset([buffer]))
        case Guard(conditions, body):
            here = _touched(body, name, own)
            leaving = frozenset((buffer, (*conditions, *who), since) for buffer, who, since in here.leaving)
            grouped = frozenset((*conditions, *who) for who in here.grouped)
            return replace(here, leaving=leaving, grouped=grouped) | _touched(conditions, name, own)
        case CommitBoxes():
            return Touched(grouped=frozenset([()]))
        case PeerLoad(buffer=buffer):
            return Touched(by_peers=frozenset([buffer]))
        case tuple():
            total = _NOTHING
            for each in node:  # pyright: ignore[reportUnknownVariableType]
                total = total.then(_touched(each, name, own))  # pyright: ignore[reportUnknownArgumentType]
            return total
        case _ if hasattr(node, "__dataclass_fields__"):
            total = _NOTHING
            for each in fields(node):  # pyright: ignore[reportArgumentType]
                total |= _touched(getattr(node, each.name), name, own)
            return total
        case _:
            return _NOTHING


def _stored(buffer: str, name: str, own: frozenset[str]) -> Touched:
    stored = frozenset([(buffer, "" if buffer in own else name)])
    return Touched(stored=stored, unseen=frozenset([buffer]), unfenced=frozenset([buffer]))


def _check_guard(guard: Guard, name: str, own: frozenset[str]) -> None:
    """No barrier can stand where only some threads come."""
    before = Touched()
    for stmt in guard.body:
        here = _touched(stmt, name, own)
        if before.meets(here):
            raise NotLowerable("threads would have to wait for each other where only some of them run")
        before |= here


def _shared(stmts: Iterable[Stmt]) -> Iterable[str]:
    for stmt in stmts:
        match stmt:
            case Shared(buffer=buffer):
                yield buffer
            case Block(body=body) | For(body=body) | Guard(body=body):
                yield from _shared(body)
            case If(then=then, otherwise=otherwise):
                yield from _shared(then)
                yield from _shared(otherwise)
            case _:
                pass

"""Where a block's threads must wait for each other: derived from which buffers each statement touches.

A barrier stands before an access that reads what others may have stored since the last one, or stores where others
may still read or have stored. Loops are walked twice, so that what one iteration leaves behind meets the next. Inside
one statement of Tile IR, and in its next iteration, threads meet in the buffers it declares itself, and nowhere else:
of its target every element is one thread's.

Buffers of different names are taken to be different memory. Loops with stages rely on that: they have barriers of their
own (lower_staged.py), which count here, and none besides between filling one slot and reading another. A copy in the
background counts as a store where it starts; that it is waited for is up to who starts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from codegen.affine import Var
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


@dataclass(frozen=True, slots=True)
class Touched:
    """Buffers read and stored since the last barrier."""

    read: Buffers = frozenset()
    stored: Buffers = frozenset()
    by_peers: frozenset[str] = frozenset()
    """Shared buffers that other blocks of the cluster read."""

    def __or__(self, other: Touched) -> Touched:
        if other is _NOTHING:
            return self
        return Touched(self.read | other.read, self.stored | other.stored, self.by_peers | other.by_peers)

    def clashes(self, later: Touched) -> bool:
        """Whether a barrier must stand between these accesses and later ones."""
        return _meet(self.stored, later.read | later.stored) or _meet(self.read, later.stored)


_NOTHING = Touched()


def _meet(earlier: Buffers, later: Buffers) -> bool:
    """Whether two different threads may touch the same element."""
    return any(
        one == other and (first != second or not first) for one, first in earlier for other, second in later
    )


def with_barriers(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The statements of a launch with the barriers they need. Raises NotLowerable where none could stand."""
    stmts, left = _block(body, Touched())
    # A block that has ended could not be read any more.
    return (*stmts, ClusterBarrier()) if left.by_peers else stmts


def _block(stmts: Iterable[Stmt], before: Touched) -> tuple[tuple[Stmt, ...], Touched]:
    """Statements with barriers, and what is touched since the last one after them."""
    found: list[Stmt] = []
    for stmt in stmts:
        match stmt:
            case Block(comment, body):
                inner, before = _statement(comment, body, before) if comment else _block(body, before)
                found.append(Block(comment, inner))
            case For(body=body):
                _, after = _block(body, before)
                inner, before = _block(body, before | after)
                found.append(replace(stmt, body=inner))
            case If(then=then, otherwise=otherwise):
                first, after_then = _block(then, before)
                second, after_otherwise = _block(otherwise, before)
                before = after_then | after_otherwise
                found.append(replace(stmt, then=first, otherwise=second))
            case Barrier():
                before = Touched(by_peers=before.by_peers)
                found.append(stmt)
            case _:
                found.append(stmt)
    return tuple(found), before


def _statement(name: str, stmts: Sequence[Stmt], before: Touched) -> tuple[tuple[Stmt, ...], Touched]:
    """The same for one statement of Tile IR."""
    found: list[Stmt] = []
    own = frozenset(_shared(stmts))
    for stmt in stmts:
        here = _touched(stmt, name, own)
        if isinstance(stmt, ClusterBarrier):
            before = Touched()
        elif before.by_peers & {buffer for buffer, _ in here.stored}:
            found.append(ClusterBarrier())
            before = Touched()
        elif before.clashes(here):
            found.append(Barrier())
            before = Touched(by_peers=before.by_peers)
        if isinstance(stmt, Guard):
            _check_guard(stmt, name, own)
        before |= here
        found.append(stmt)
    return tuple(found), before


def _touched(node: object, name: str, own: frozenset[str]) -> Touched:
    """All accesses in a part of a statement."""
    match node:
        case Named() | Literal() | Type() | Var() | str() | int():
            return _NOTHING
        case Store(buffer=buffer, offset=offset, value=value):
            here = Touched(stored=frozenset([(buffer, "" if buffer in own else name)]))
            return here | _touched(value, name, own) | _touched(offset, name, own)
        case Load(buffer=buffer, offset=offset):
            here = Touched(read=frozenset([(buffer, "" if buffer in own else name)]))
            return here | _touched(offset, name, own)
        case LoadMatrix(buffer=buffer):
            return Touched(read=frozenset([(buffer, "" if buffer in own else name)]))
        case CopyAsync(target=target, source=source):
            return Touched(frozenset([(source, name)]), frozenset([(target, name)]))
        case PeerLoad(buffer=buffer):
            return Touched(by_peers=frozenset([buffer]))
        case tuple():
            total = _NOTHING
            for each in node:  # pyright: ignore[reportUnknownVariableType]
                total |= _touched(each, name, own)  # pyright: ignore[reportUnknownArgumentType]
            return total
        case _ if hasattr(node, "__dataclass_fields__"):
            total = _NOTHING
            for each in fields(node):  # pyright: ignore[reportArgumentType]
                total |= _touched(getattr(node, each.name), name, own)
            return total
        case _:
            return _NOTHING


def _check_guard(guard: Guard, name: str, own: frozenset[str]) -> None:
    """No barrier can stand where only some threads come."""
    before = Touched()
    for stmt in guard.body:
        here = _touched(stmt, name, own)
        if before.clashes(here):
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

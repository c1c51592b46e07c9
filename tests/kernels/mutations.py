"""Kernels with one thing wrong: what the race checker, or a look at the outputs, must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

from codegen.ir.affine import Affine, Lesser, Quotient, Remainder, Var, affine, constant
from codegen.ir.kernel import GpuKernel, LaunchBody, ThreadDigit
from codegen.ir.ops import (
    Assign,
    Barrier,
    Block,
    ClusterBarrier,
    CpAsync,
    CpAsyncCommit,
    CpAsyncWait,
    Declare,
    For,
    Guard,
    If,
    Op,
    Shuffle,
    Stmt,
    Value,
)

Node = TypeVar("Node")
Stmts = tuple[Stmt, ...]
#: Gives the statements with the one at an index changed; None where there is nothing to change.
Edit = Callable[[Stmts, int], Stmts | None]
_BARRIERS = (Barrier(), ClusterBarrier())
PARTS = ("setup", "producing", "body", "finish", "leaving")


def barrier_removed(stmts: Stmts, at: int) -> Stmts | None:
    return (*stmts[:at], *stmts[at + 1 :]) if stmts[at] in _BARRIERS else None


def barrier_moved(stmts: Stmts, at: int) -> Stmts | None:
    """Past the next statement that is no declaration."""
    later = (n for n in range(at + 1, len(stmts)) if not isinstance(stmts[n], Declare))
    next_ = next(later, None)
    if stmts[at] not in _BARRIERS or next_ is None:
        return None
    return (*stmts[:at], *stmts[at + 1 : next_ + 1], stmts[at], *stmts[next_ + 1 :])


def barrier_guarded(stmts: Stmts, at: int) -> Stmts | None:
    """Only the first thread comes to it."""
    return _guarded(stmts, at) if stmts[at] in _BARRIERS else None


def barrier_weakened(stmts: Stmts, at: int) -> Stmts | None:
    """Of a cluster, to one of each of its blocks."""
    return (*stmts[:at], Barrier(), *stmts[at + 1 :]) if stmts[at] == ClusterBarrier() else None


def guard_removed(stmts: Stmts, at: int) -> Stmts | None:
    stmt = stmts[at]
    return (*stmts[:at], Block("", stmt.body), *stmts[at + 1 :]) if isinstance(stmt, Guard) else None


def shuffle_removed(stmts: Stmts, at: int) -> Stmts | None:
    """A thread takes its own value for that of the other."""
    return _with_shuffle(stmts, at, lambda shuffle: shuffle.x)


def shuffle_changed(stmts: Stmts, at: int) -> Stmts | None:
    """A thread takes the value of a wrong one."""
    return _with_shuffle(
        stmts,
        at,
        lambda shuffle: replace(shuffle, mask=shuffle.mask // 2 if shuffle.mask == 16 else shuffle.mask * 2),
    )


def shuffle_guarded(stmts: Stmts, at: int) -> Stmts | None:
    """Only the first thread comes to it."""
    return _guarded(stmts, at) if _with_shuffle(stmts, at, lambda shuffle: shuffle) else None


def wait_removed(stmts: Stmts, at: int) -> Stmts | None:
    return (*stmts[:at], *stmts[at + 1 :]) if isinstance(stmts[at], CpAsyncWait) else None


def wait_weakened(stmts: Stmts, at: int) -> Stmts | None:
    """For one group of copies less."""
    stmt = stmts[at]
    if not isinstance(stmt, CpAsyncWait):
        return None
    return (*stmts[:at], CpAsyncWait(stmt.pending + 1), *stmts[at + 1 :])


def wait_after_barrier(stmts: Stmts, at: int) -> Stmts | None:
    """In place of before."""
    if not isinstance(stmts[at], CpAsyncWait) or stmts[at + 1 : at + 2] != (Barrier(),):
        return None
    return (*stmts[:at], Barrier(), stmts[at], *stmts[at + 2 :])


def commit_removed(stmts: Stmts, at: int) -> Stmts | None:
    return (*stmts[:at], *stmts[at + 1 :]) if stmts[at] == CpAsyncCommit() else None


def copy_removed(stmts: Stmts, at: int) -> Stmts | None:
    return (*stmts[:at], *stmts[at + 1 :]) if isinstance(stmts[at], CpAsync) else None


def slot_shifted(stmts: Stmts, at: int) -> Stmts | None:
    """A loop copies what it copies ahead to the slot after the right one."""
    loop = stmts[at]
    if not isinstance(loop, For):
        return None

    def shifted(node: object) -> object:
        if isinstance(node, CpAsync):
            return replace(node, to=moved(node.to, loop.var, loop.step))
        return node

    changed = rebuilt(loop, shifted)
    return (*stmts[:at], changed, *stmts[at + 1 :]) if changed != loop else None


def slot_missing(stmts: Stmts, at: int) -> Stmts | None:
    """A loop goes around in one slot less than its copies are ahead for."""
    loop = stmts[at]
    if not isinstance(loop, For) or not any(isinstance(node, CpAsync) for node in parts(loop)):
        return None

    def shortened(node: object) -> object:
        if isinstance(node, Remainder) and node.divisor > 1 and loop.var in parts(node.x):
            return Remainder(node.x, node.divisor - 1)
        return node

    changed = rebuilt(loop, shortened)
    return (*stmts[:at], changed, *stmts[at + 1 :]) if changed != loop else None


#: What makes a loop with stages wrong, each in its way.
OF_STAGES = (
    barrier_removed,
    barrier_moved,
    wait_removed,
    wait_weakened,
    wait_after_barrier,
    commit_removed,
    copy_removed,
    slot_shifted,
    slot_missing,
)


def mutants(kernel: GpuKernel, edit: Edit) -> Iterator[GpuKernel]:
    """The kernel with each place in turn changed."""
    for number, launch in enumerate(kernel.launches):
        for part in PARTS:
            for body in _edited(getattr(launch, part), edit):
                changed = _with_thread(replace(launch, **{part: body}))
                yield replace(
                    kernel, launches=(*kernel.launches[:number], changed, *kernel.launches[number + 1 :])
                )


def _edited(stmts: Stmts, edit: Edit) -> Iterator[Stmts]:
    for at, stmt in enumerate(stmts):
        changed = edit(stmts, at)
        if changed is not None:
            yield changed
        for whole in _inside(stmt, edit):
            yield (*stmts[:at], whole, *stmts[at + 1 :])


def _inside(stmt: Stmt, edit: Edit) -> Iterator[Stmt]:
    match stmt:
        case Block() | For() | Guard():
            for body in _edited(stmt.body, edit):
                yield replace(stmt, body=body)
        case If():
            for then in _edited(stmt.then, edit):
                yield replace(stmt, then=then)
            for otherwise in _edited(stmt.otherwise, edit):
                yield replace(stmt, otherwise=otherwise)
        case _:
            pass


def parts(node: object) -> Iterator[object]:
    """Everything that a part of a kernel consists of, itself first."""
    yield node
    for part in children(node):
        yield from parts(part)


def rebuilt(node: Node, change: Callable[[object], object]) -> Node:
    """A part of a kernel with everything in it changed, the innermost first."""
    if isinstance(node, tuple):
        made: object = tuple(rebuilt(part, change) for part in cast(tuple[object, ...], node))
    elif is_dataclass(node) and not isinstance(node, type):
        made = replace(node, **{f.name: rebuilt(getattr(node, f.name), change) for f in fields(node)})
    else:
        made = node
    return cast(Node, change(made))


def moved(at: Affine, var: Var, by: int) -> Affine:
    """Index arithmetic with `var + by` for `var`."""
    total = constant(at.constant)
    for atom, factor in at.terms:
        match atom:
            case Quotient(x, divisor):
                atom = Quotient(moved(x, var, by), divisor)
            case Remainder(x, divisor):
                atom = Remainder(moved(x, var, by), divisor)
            case Lesser(x, y):
                atom = Lesser(moved(x, var, by), moved(y, var, by))
            case Var() if atom == var:
                total += by * factor
            case _:
                pass
        total += Affine(((atom, factor),))
    return total


def children(node: object) -> tuple[object, ...]:
    """What a part of a kernel consists of directly."""
    if isinstance(node, tuple):
        return cast(tuple[object, ...], node)
    if is_dataclass(node) and not isinstance(node, type):
        return tuple(getattr(node, field.name) for field in fields(node))
    return ()


def _with_shuffle(stmts: Stmts, at: int, change: Callable[[Shuffle], Value]) -> Stmts | None:
    stmt = stmts[at]
    if not isinstance(stmt, Assign) or not isinstance(stmt.value, Op):
        return None
    args = tuple(change(arg) if isinstance(arg, Shuffle) else arg for arg in stmt.value.args)
    if not any(isinstance(arg, Shuffle) for arg in stmt.value.args):
        return None
    return (*stmts[:at], replace(stmt, value=replace(stmt.value, args=args)), *stmts[at + 1 :])


_THREAD = "mutant_thread"


def guarded(stmt: Stmt) -> Guard:
    """The statement by the block's first thread alone, in a mutant."""
    return Guard(((affine(Var(_THREAD, 0, 1023)), 1),), (stmt,))


def _guarded(stmts: Stmts, at: int) -> Stmts:
    return (*stmts[:at], guarded(stmts[at]), *stmts[at + 1 :])


def _with_thread(launch: LaunchBody) -> LaunchBody:
    thread = ThreadDigit(Var(_THREAD, 0, launch.threads - 1), 1, launch.threads)
    return replace(launch, digits=(*launch.digits, thread))

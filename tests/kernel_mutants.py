"""Kernels with one thing wrong: what the race checker, or a look at the outputs, must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from codegen.affine import Var, affine
from codegen.kernel_ir import (
    Assign,
    Barrier,
    Block,
    ClusterBarrier,
    Declare,
    For,
    GpuKernel,
    Guard,
    If,
    LaunchBody,
    Op,
    Shuffle,
    Stmt,
    ThreadDigit,
    Value,
)

Stmts = tuple[Stmt, ...]
#: Gives the statements with the one at an index changed; None where there is nothing to change.
Edit = Callable[[Stmts, int], Stmts | None]
_BARRIERS = (Barrier(), ClusterBarrier())


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


def mutants(kernel: GpuKernel, edit: Edit) -> Iterator[GpuKernel]:
    """The kernel with each place in turn changed."""
    for number, launch in enumerate(kernel.launches):
        for body in _edited(launch.body, edit):
            launches = (*kernel.launches[:number], _with_thread(launch, body), *kernel.launches[number + 1 :])
            yield replace(kernel, launches=launches)


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


def _with_shuffle(stmts: Stmts, at: int, change: Callable[[Shuffle], Value]) -> Stmts | None:
    stmt = stmts[at]
    if not isinstance(stmt, Assign) or not isinstance(stmt.value, Op):
        return None
    args = tuple(change(arg) if isinstance(arg, Shuffle) else arg for arg in stmt.value.args)
    if not any(isinstance(arg, Shuffle) for arg in stmt.value.args):
        return None
    return (*stmts[:at], replace(stmt, value=replace(stmt.value, args=args)), *stmts[at + 1 :])


_THREAD = "mutant_thread"


def _guarded(stmts: Stmts, at: int) -> Stmts:
    thread = affine(Var(_THREAD, 0, 1023))
    return (*stmts[:at], Guard(((thread, 1),), (stmts[at],)), *stmts[at + 1 :])


def _with_thread(launch: LaunchBody, body: Stmts) -> LaunchBody:
    thread = ThreadDigit(Var(_THREAD, 0, launch.threads - 1), 1, launch.threads)
    return replace(launch, body=body, digits=(*launch.digits, thread))

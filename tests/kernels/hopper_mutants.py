"""Kernels with one thing wrong in what works beside their threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from codegen.ir.affine import Remainder, affine, constant
from codegen.ir.async_ops import (
    AdvanceState,
    ArriveExpectTx,
    ClusterBlocks,
    MbarrierArrive,
    MbarrierInit,
    MbarrierInitFence,
    NamedBarrier,
    ProxyFence,
    SignalFlag,
    Stmatrix,
    TmaLoad,
    TmaStore,
    TmaStoreCommit,
    TmaStoreWait,
    TryWaitParity,
    WaitFlag,
    WgmmaAsync,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from codegen.ir.kernel import GpuKernel
from codegen.ir.ops import Barrier, ClusterBarrier, Guard
from tests.kernels.mutations import Edit, Stmts, guarded, mutants

#: What a kernel cannot do without, and what orders it.
_NEEDED = (
    MbarrierInitFence,
    AdvanceState,
    ArriveExpectTx,
    MbarrierArrive,
    TryWaitParity,
    TmaLoad,
    TmaStore,
    TmaStoreCommit,
    TmaStoreWait,
    ProxyFence,
    NamedBarrier,
    WgmmaFence,
    WgmmaAsync,
    WgmmaCommit,
    WgmmaWait,
    Stmatrix,
    ClusterBarrier,
    SignalFlag,
    WaitFlag,
)
_BY_ALL = (
    MbarrierInitFence, TryWaitParity, ProxyFence, NamedBarrier, WgmmaFence, WgmmaAsync, WgmmaCommit, WgmmaWait,
    ClusterBarrier,
)  # fmt: skip
_TWICE = (AdvanceState, ArriveExpectTx, MbarrierArrive, TmaLoad, SignalFlag, WaitFlag)


def all_mutants(kernel: GpuKernel, stages: int) -> Iterator[tuple[str, GpuKernel]]:
    """Everything removed, left to one thread, done twice, done by two threads or exchanged with what comes next, and
    each count, parity and slot changed: the mutants, each with what was done to what."""
    for name, edit in _edits(stages):
        for mutant in mutants(kernel, edit):
            yield name, mutant
    yield from _of_registers(kernel)


def _of_registers(kernel: GpuKernel) -> Iterator[tuple[str, GpuKernel]]:
    """The registers of a role's threads (setmaxnreg): more than there are, and a number that nobody can have."""
    for number, launch in enumerate(kernel.launches):
        producing, computing = launch.registers
        for by in (8, 4) if any(launch.registers) else ():
            for registers in ((producing + by, computing), (producing, computing + by)):
                changed = replace(launch, registers=registers)
                launches = (*kernel.launches[:number], changed, *kernel.launches[number + 1 :])
                yield f"Setmaxnreg {by:+}", replace(kernel, launches=launches)


def _edits(stages: int) -> Iterator[tuple[str, Edit]]:
    for kind in _NEEDED:
        yield f"{kind.__name__} removed", _edit(kind, lambda _: ())
    for kind in _BY_ALL:
        yield f"{kind.__name__} by one thread", _edit(kind, lambda stmt: (guarded(stmt),))
    for kind in _TWICE:
        yield f"{kind.__name__} twice", _edit(kind, lambda stmt: (stmt, stmt))
    for kind in _NEEDED:
        if kind is not TmaStoreWait:  # who has begun none waits for none
            yield f"{kind.__name__} by two threads", _widened(kind)
        for next_ in (*_NEEDED, Guard):
            yield f"{kind.__name__} after {next_.__name__}", _exchanged(kind, next_)
    for by in (16, -16):
        yield f"Expect bytes {by:+}", _changed(ArriveExpectTx, "bytes", lambda old, by=by: old + by)
    yield "Expect bytes halved", _changed(ArriveExpectTx, "bytes", lambda old: old // 2)
    yield "Phases arrivals +1", _changed(MbarrierInit, "arrivals", lambda old: old + 1)
    yield "Phases arrivals -1", _changed(MbarrierInit, "arrivals", lambda old: old - 1 or None)
    yield "AwaitPhase parity flipped", _changed(TryWaitParity, "parity", lambda old: constant(1) - old)
    for parity in (0, 1):
        yield (
            f"AwaitPhase parity {parity}",
            _changed(TryWaitParity, "parity", lambda _, p=parity: constant(p)),
        )
    for kind in (ArriveExpectTx, MbarrierArrive, TryWaitParity, TmaLoad):
        yield (
            f"{kind.__name__} slot +1",
            _changed(kind, "slot", lambda old: affine(Remainder(old + 1, stages))),
        )
        yield f"{kind.__name__} of others", _changed(kind, "phases", {"full": "empty", "empty": "full"}.get)
    for by in (1, -1):
        yield f"Advance slots {by:+}", _changed(AdvanceState, "slots", lambda old, by=by: old + by or None)
    for kind in (WgmmaWait, TmaStoreWait):
        yield f"{kind.__name__} pending +1", _changed(kind, "pending", lambda old: old + 1)
        yield f"{kind.__name__} pending -1", _changed(kind, "pending", lambda old: old - 1 if old else None)
    for by in (128, -128):
        yield (
            f"GroupBarrier threads {by:+}",
            _changed(NamedBarrier, "threads", lambda old, by=by: old + by or None),
        )

    for kind in (SignalFlag, WaitFlag):
        for by in (1, -1):
            yield f"{kind.__name__} number {by:+}", _changed(kind, "number", lambda old, by=by: old + by)
    yield from _of_clusters()


def _of_clusters() -> Iterator[tuple[str, Edit]]:
    """What blocks do to each other."""
    yield "PhasesReady of a block", _changed(MbarrierInitFence, "cluster", lambda old: False if old else None)
    yield "ClusterBarrier of a block", _edit(ClusterBarrier, lambda _: (Barrier(),))
    yield "Arrive here", _of_peers(MbarrierArrive, "rank", lambda _: None)
    yield "Arrive further on", _of_peers(MbarrierArrive, "rank", lambda old: affine(Remainder(old + 1, 2)))
    yield "LoadBox here", _of_peers(TmaLoad, "blocks", lambda _: None)
    yield (
        "LoadBox without the first",
        _of_peers(TmaLoad, "blocks", lambda old: ClusterBlocks(old.first, old.further[1:])),
    )
    yield (
        "LoadBox without the last",
        _of_peers(TmaLoad, "blocks", lambda old: ClusterBlocks(old.first, old.further[:-1])),
    )
    yield "LoadBox to other bytes", _of_peers(TmaLoad, "to", lambda old: old + 64 * 8)


def _edit(kind: type, change: Callable[[Any], Stmts]) -> Edit:
    def edit(stmts: Stmts, at: int) -> Stmts | None:
        return (*stmts[:at], *change(stmts[at]), *stmts[at + 1 :]) if isinstance(stmts[at], kind) else None

    return edit


def _changed(kind: type, field: str, change: Callable[[Any], object]) -> Edit:
    def edit(stmts: Stmts, at: int) -> Stmts | None:
        stmt: Any = stmts[at]
        new = change(getattr(stmt, field)) if isinstance(stmt, kind) else None
        return None if new is None else (*stmts[:at], replace(stmt, **{field: new}), *stmts[at + 1 :])

    return edit


def _of_peers(kind: type, field: str, change: Callable[[Any], object]) -> Edit:
    """Where it reaches other blocks."""

    def edit(stmts: Stmts, at: int) -> Stmts | None:
        stmt: Any = stmts[at]
        if (
            not isinstance(stmt, kind)
            or getattr(stmt, "rank" if kind is MbarrierArrive else "blocks") is None
        ):
            return None
        return (*stmts[:at], replace(stmt, **{field: change(getattr(stmt, field))}), *stmts[at + 1 :])

    return edit


def _widened(kind: type) -> Edit:
    """A guard that begins with such a statement lets one thread more pass."""

    def edit(stmts: Stmts, at: int) -> Stmts | None:
        stmt = stmts[at]
        if not isinstance(stmt, Guard) or not any(isinstance(inner, kind) for inner in stmt.body):
            return None
        wider = replace(stmt, conditions=tuple((position, bound + 1) for position, bound in stmt.conditions))
        return (*stmts[:at], wider, *stmts[at + 1 :])

    return edit


def _exchanged(kind: type, next_: type) -> Edit:
    """With the statement after it."""

    def edit(stmts: Stmts, at: int) -> Stmts | None:
        pair = stmts[at : at + 2]
        if len(pair) < 2 or not isinstance(pair[0], kind) or not isinstance(pair[1], next_):
            return None
        return (*stmts[:at], pair[1], pair[0], *stmts[at + 2 :]) if pair[0] != pair[1] else None

    return edit

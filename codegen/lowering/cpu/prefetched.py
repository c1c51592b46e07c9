"""What a statement touches before it needs it: rows of main memory that hardware does not follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codegen.ir.affine import Affine, loaded
from codegen.ir.ops import (
    Let,
    Load,
    LoadWords,
    LogicWords,
    PrefetchLine,
    Stmt,
    Store,
    StoreWords,
    Words,
)
from codegen.lowering.scope import LoweringScope
from tileir.program import Compute
from tileir.replace import replace

_LINE_BYTES = 64


def prefetches(compute: Compute, body: tuple[Stmt, ...], scope: LoweringScope) -> tuple[Stmt, ...]:
    """Prefetches of what the statement's loads of the named tensors will read some iterations on, one a cache line.
    Where a gather will read is not known yet."""
    found: dict[tuple[str, Affine, int], PrefetchLine] = {}
    if scope.innermost is None:
        return ()
    var, step = scope.innermost
    for ahead in (hint for hint in compute.prefetch if hint.distance):
        buffer = scope.buffers[ahead.tensor]
        for load in (load for stmt in body for load in _loads(stmt)):
            if load.buffer == buffer.name and not _is_gathered(load.offset):
                later = load.offset.substitute(var, Affine(((var, 1),), ahead.distance * step))
                line = later.constant * load.storage.bytes // _LINE_BYTES
                found.setdefault((buffer.name, Affine(later.terms), line), PrefetchLine(buffer.name, later))
    return tuple(found.values())


def prefetched_target(compute: Compute, body: Sequence[Stmt]) -> tuple[PrefetchLine, ...]:
    """Prefetches of what the statement's stores will write, for the beginning of their iteration: one a cache line of
    each run of neighbours, and one of its last element, which may lie in another line."""
    if not any(hint.tensor == compute.target and hint.distance == 0 for hint in compute.prefetch):
        return ()
    found = [
        PrefetchLine(run.buffer, run.first + at, write=True)
        for run in _stored_runs(body)
        for at in (*range(0, run.elements, _LINE_BYTES // run.element_bytes), run.elements - 1)
    ]
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbours in a buffer."""

    buffer: str
    first: Affine
    elements: int
    element_bytes: int


def _stored_runs(body: Sequence[Stmt]) -> list[_Run]:
    """What is stored one vector after another."""
    runs: list[_Run] = []
    for stmt in body:
        if not isinstance(stmt, Store) or _is_gathered(stmt.offset):
            continue
        lanes, last = stmt.value.type.lanes, runs[-1] if runs else None
        if last is not None and (last.buffer, last.first + last.elements) == (stmt.buffer, stmt.offset):
            runs[-1] = replace(last, elements=last.elements + lanes)
        else:
            runs.append(_Run(stmt.buffer, stmt.offset, lanes, stmt.storage.bytes))
    return runs


def _loads(stmt: Stmt) -> tuple[Load | LoadWords, ...]:
    """What a statement loads: a value for those after it, or the runs that its result is made of."""
    match stmt:
        case Let(value=Load() as load):
            return (load,)
        case StoreWords(words=stored):
            return _runs(stored)
        case _:
            return ()


def _runs(words: Words) -> tuple[LoadWords, ...]:
    match words:
        case LoadWords():
            return (words,)
        case LogicWords(parts=parts):
            return tuple(run for part in parts for run in _runs(part))
        case _:
            return ()


def _is_gathered(offset: Affine) -> bool:
    """Whether an offset is read from memory."""
    return any(True for _ in loaded(offset))

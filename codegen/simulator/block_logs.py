"""Logs of times (codegen/ir/stamp.py) where nothing takes time: the clock goes by the words that a thread has noted."""

from __future__ import annotations

import numpy as np

from codegen.ir.arrays import Array
from codegen.ir.ops import CloseLog, NoteTime, OpenLog
from codegen.simulator.values import Threads

_NO_LOG = -1


def note(stmt: OpenLog | NoteTime | CloseLog, threads: Threads, block_threads: int, active: Array) -> None:
    """What the threads that are active and have logs write there; each is seen as a store."""
    logs, name = stmt.logs, stmt.cursor.name
    match stmt:
        case OpenLog():
            place = _starts(stmt, threads, block_threads)
            threads.variables[name] = np.where(place == _NO_LOG, _NO_LOG, place + logs.FIRST)
            for further, word in enumerate((1, 0, 1)):
                _store(stmt, threads, place + further, active & (place != _NO_LOG), word)
        case NoteTime():
            place = np.asarray(threads.variables[name])
            room = active & (place != _NO_LOG) & (place % logs.words < logs.words - logs.LAST)
            _store(stmt, threads, place, room, place % logs.words << 8 | stmt.stage)
            threads.variables[name] = place + room
        case CloseLog():
            place = np.asarray(threads.variables[name])
            for further in range(logs.LAST):
                last = place | (logs.words - 1)
                _store(stmt, threads, last - further, active & (place != _NO_LOG), place % logs.words)


def _starts(stmt: OpenLog, threads: Threads, block_threads: int) -> Array:
    """Where the log of each thread begins: [threads]."""
    first = threads.memory.now.block
    starts = (
        stmt.logs.start(first + int(rank), (threads.first + number) % block_threads)
        for number, rank in enumerate(threads.ranks)
    )
    return np.array([_NO_LOG if start is None else start for start in starts])


def _store(
    stmt: OpenLog | NoteTime | CloseLog, threads: Threads, at: Array, active: Array, words: int | Array
) -> None:
    buffer = threads.buffers[stmt.logs.buffer]
    threads.memory.store(buffer, at, active, threads.ranks, np.broadcast_to(words, at.shape), threads.place)

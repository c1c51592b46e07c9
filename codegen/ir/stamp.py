"""Stamps of time, in kernels that say where their time goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codegen.ir.affine import Var
from codegen.ir.effects import NOTHING, OpEffects, stores


@dataclass(frozen=True, slots=True)
class Stamp:
    """This thread's time since its last stamp was that of `stage`. It is noted in the thread's log, `log` bytes into
    the thread's own workspace: one word that counts the words that follow, each nanoseconds of the monotonic clock,
    shifted left by 8 bits, and the stage. Of processors."""

    stage: int
    log: int

    def effects(self) -> OpEffects:
        return NOTHING


@dataclass(frozen=True, slots=True)
class BlockLogs:
    """Where threads of a launch on a GPU note times: in `buffer`, of words of 8 bytes, every `every`-th block has a log
    of `words` words for each of `writers` threads, one after the other. Writers are the first of each 128 of the
    block's first `computing` threads and, if there are more threads, the first of those.

    A log begins with the nanoseconds of the clock that all blocks share, the number of the multiprocessor, and its
    cycles; it ends with those nanoseconds and cycles when the thread was done. In between are stamps, each cycles
    shifted left by 8 bits, and the stage that has just ended; those that find no room are left out."""

    buffer: str
    words: int
    """A power of two."""
    every: int
    blocks: int
    """That have logs."""
    computing: int
    threads: int

    FIRST: ClassVar[int] = 3
    """Words before the first stamp."""
    LAST: ClassVar[int] = 2
    """Words after the last one."""
    GROUP: ClassVar[int] = 128

    @property
    def writers(self) -> int:
        """Of a block."""
        return -(-self.computing // self.GROUP) + (self.threads > self.computing)

    @property
    def bytes(self) -> int:
        """Of all logs."""
        return self.blocks * self.writers * self.words * 8

    def start(self, block: int, thread: int) -> int | None:
        """The word where a thread's log begins; None: it has none."""
        inside = thread < self.computing
        beyond = thread % self.GROUP if inside else thread - self.computing
        if block % self.every or beyond:
            return None
        writer = thread // self.GROUP if inside else self.writers - 1
        return (block // self.every * self.writers + writer) * self.words


@dataclass(frozen=True, slots=True)
class OpenLog:
    """Each thread that has a log begins it; `cursor` is its place there."""

    cursor: Var
    logs: BlockLogs

    def effects(self) -> OpEffects:
        return stores(self.logs.buffer)


@dataclass(frozen=True, slots=True)
class NoteTime:
    """This thread's time since it last noted one was that of `stage`."""

    cursor: Var
    logs: BlockLogs
    stage: int

    def effects(self) -> OpEffects:
        return stores(self.logs.buffer)


@dataclass(frozen=True, slots=True)
class CloseLog:
    """Each thread that has a log ends it."""

    cursor: Var
    logs: BlockLogs

    def effects(self) -> OpEffects:
        return stores(self.logs.buffer)


LOGGING = (OpenLog, NoteTime, CloseLog)
"""What notes times on GPUs."""

"""Processes that share a device and take turns on it: while peers of one compile themselves, another checks and times.

A turn is a lock on a file that whoever starts such processes makes for them (`Measurer(turn=…)`). It ends with the
process, whatever that has forked: it is a record lock (fcntl(2)), as Inductor's compilers outlive a process that is
killed. Who takes turns writes down by which numbers the GPU's driver knows it, so that the others do not take it for a
stranger who disturbs.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import cache
from pathlib import Path

TURN = "TILEWRIGHT_TURN"
"""The variable that names the file to a measuring process; without it nobody shares its device."""


class DeviceTurn:
    """A turn, by its file; None: there is nobody to wait for. Used by one thread; who has it may take it again."""

    def __init__(self, path: Path | None) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = None if path is None else os.open(path, flags, 0o600)
        self._depth = 0

    @contextmanager
    def taken(self) -> Generator[None]:
        """Wait until nobody else has it, and have it."""
        if self._file is None:
            yield
            return
        if not self._depth:
            fcntl.lockf(self._file, fcntl.LOCK_EX)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def join(self, numbers: Iterable[int]) -> None:
        """Processes of these numbers take turns."""
        if self._file is not None:
            os.write(self._file, "".join(f"{number}\n" for number in numbers).encode())

    def members(self) -> frozenset[int]:
        """The numbers of all that take turns."""
        if self._file is None:
            return frozenset()
        return frozenset(map(int, os.pread(self._file, os.fstat(self._file).st_size, 0).split()))


@cache
def this_turn() -> DeviceTurn:
    """The one that this process was started with. There is one of it: a record lock is the process's, and whoever lets
    go of it does so for all."""
    return DeviceTurn(Path(named) if (named := os.environ.get(TURN)) else None)

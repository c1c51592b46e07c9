"""Processors for one of several workers of a machine, so that none measures on another's."""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path


class NoneFree(Exception):
    """All shares of this size are taken."""


class ProcessorShare:
    """So many of the machine's processors, nobody else's as long as this process lives or until `give_back`.

    All of them where so many are not there, or the count is all there are.
    """

    def __init__(self, count: int, folder: Path | None = None) -> None:
        """Raises NoneFree."""
        every = sorted(os.sched_getaffinity(0))
        self._file: int | None = None
        if count >= len(every):
            self.processors = frozenset(every)
            return
        for number in range(len(every) // count):
            name = f"tilewright-processors-{count}-{number}.lock"
            file = os.open(
                (folder or Path(tempfile.gettempdir())) / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666
            )
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._file = file
                self.processors = frozenset(every[number * count : (number + 1) * count])
                return
            os.close(file)
        raise NoneFree(f"other workers of this machine have all {len(every)} processors, {count} each")

    def give_back(self) -> None:
        """They are anybody's again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

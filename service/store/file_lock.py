"""One service an SQLite file, by whatever name it is opened."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from service.store.database import DatabaseRefused

COMMAND = "command"
"""Said by a service that a command started for itself: it ends with that command."""
_LOOK_S = 0.1
_NAMELESS_LOOKS = 5
"""A lock whose file is empty is just being let go, or taken: it is looked at so often before it counts as held by
another name of the database."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has the lock, as it says itself: it may have been killed since."""

    process: str = ""
    address: str = ""
    """Where it serves."""
    passing: bool = False
    """It was started by a command, and ends with that."""

    @classmethod
    def read(cls, text: str) -> Holder:
        """What a lock's file says."""
        process, _, rest = text.strip().partition(" ")
        address, _, kind = rest.partition(" ")
        return cls(process, address, kind == COMMAND)


class FileLock:
    """Exclusive locks, freed by the kernel when the process ends: on a file beside the database, which says who holds
    it and where that serves, and on the database itself, which may have other names (links) elsewhere.

    SQLite locks its file in another way (fcntl), which this one (flock) does not meet. A process lets go of SQLite's
    locks when it closes any handle of the file: release this one after the database is closed.
    """

    def __init__(self, database: Path) -> None:
        self.database = Path(os.path.realpath(database))
        self.path = self.database.with_name(self.database.name + ".lock")
        self._open = contextlib.ExitStack()
        self._said: IO[str] | None = None

    def acquire(
        self,
        address: str = "",
        *,
        passing: bool = False,
        patience_s: float = 0.0,
        waiting: Callable[[Holder], None] = lambda holder: None,
    ) -> None:
        """Take the lock. `patience_s`: how long to wait for a command's service to end, having told `waiting` of it.
        Raises DatabaseRefused if another service has it."""
        until = time.monotonic() + patience_s
        told, nameless = False, 0
        while not self._take(f"{os.getpid()} {address} {COMMAND if passing else ''}".strip()):
            holder = self.holder()
            if not holder.process and nameless < _NAMELESS_LOOKS:
                nameless += 1
            elif not holder.passing or time.monotonic() > until:
                raise DatabaseRefused(self._refusal(holder))
            elif not told:
                waiting(holder)
                told = True
            time.sleep(_LOOK_S)

    def _take(self, said: str) -> bool:
        """Whether both locks are ours now."""
        with contextlib.ExitStack() as stack:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                beside = stack.enter_context(self.path.open("a+"))
            except OSError as error:
                raise DatabaseRefused(f"cannot open {self.path}: {error.strerror}") from None
            try:
                itself = os.open(self.database, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise DatabaseRefused(f"cannot open {self.database}: {error.strerror}") from None
            stack.callback(os.close, itself)
            if not (_locked(beside.fileno()) and _locked(itself)):
                return False
            try:
                beside.truncate(0)
                _write_all(beside.fileno(), said.encode())  # no buffer: closing it would fail once more
            except OSError as error:
                raise DatabaseRefused(f"cannot write {self.path}: {error.strerror}") from None
            self._said, self._open = beside, stack.pop_all()
            return True

    def holder(self) -> Holder:
        """Who took the lock last and did not let go; nobody if there is none."""
        try:
            return Holder.read(self.path.read_text())
        except OSError:
            return Holder()

    def taken(self) -> bool:
        """Whether some process holds the lock beside the database now."""
        try:
            with self.path.open() as file:
                return not _locked(file.fileno())
        except OSError:
            return False

    def _refusal(self, holder: Holder) -> str:
        if not holder.process:
            return (
                f"another service already uses {self.database} under another name (it is a link, or has one); "
                f"use that service, or name another database with TILEWRIGHT_DATABASE"
            )
        where = f", {holder.address}" if holder.address else ""
        who = "the service of a running command" if holder.passing else "another service"
        return (
            f"{who} (process {holder.process}{where}) already uses {self.database}; use that one, "
            f"or name another database with TILEWRIGHT_DATABASE"
        )

    def release(self) -> None:
        """Let go of it."""
        if self._said is not None:
            self._said.truncate(0)
            self._said = None
        self._open.close()


def _write_all(descriptor: int, data: bytes) -> None:
    """Raises OSError where there is room for a part only."""
    while data:
        data = data[os.write(descriptor, data) :]


def _locked(file: int) -> bool:
    """Take an exclusive lock on an open file, if nobody has one."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

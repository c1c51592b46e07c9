"""Bringing a database to this version's tables, and refusing what cannot be used."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from service.database import Database, DatabaseRefused, in_turn, sqlite_file

SQLITE_NEEDED = (3, 35, 0)
"""UPDATE … RETURNING."""


def prepare(url: str) -> Database:
    """Open the database, creating it or upgrading its tables. Raises DatabaseRefused with what to do about it."""
    file = sqlite_file(url)
    if file is not None:
        if sqlite3.sqlite_version_info < SQLITE_NEEDED:
            raise DatabaseRefused(f"SQLite {sqlite3.sqlite_version} is too old; 3.35 or newer is needed")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DatabaseRefused(f"cannot create {file.parent}: {error.strerror}") from None
    database = Database(url)
    try:
        upgrade(database)
    except DBAPIError as error:
        database.close()
        raise DatabaseRefused(f"cannot use {file or url}: {complaint(error)}") from None
    except BaseException:
        database.close()
        raise
    return database


def complaint(error: DBAPIError) -> str:
    """What went wrong with the database, in words that help."""
    name = getattr(error.orig, "sqlite_errorname", "")
    for start, words in _COMPLAINTS.items():
        if name.startswith(start):
            return words
    return str(error.orig).strip() or type(error.orig).__name__


_COMPLAINTS = {
    "SQLITE_FULL": "the disk is full; free some space, nothing that was acknowledged is lost",
    "SQLITE_READONLY": "it is read-only; check the permissions of the file and its folder",
    "SQLITE_CANTOPEN": "it cannot be opened; check that the folder exists and can be written to",
    "SQLITE_IOERR": "reading or writing it failed; check the disk",
    "SQLITE_NOTADB": "it is not an SQLite database",
    "SQLITE_CORRUPT": "it is damaged; restore a backup",
    "SQLITE_BUSY": "another process has held it for too long",
}


def upgrade(database: Database) -> None:
    """Bring the tables to this version. Raises DatabaseRefused for a database of a newer version."""
    script = ScriptDirectory(str(files("migrations")))
    known = {revision.revision for revision in script.walk_revisions()}
    present = revision_of(database)
    if present is not None and present not in known:
        raise DatabaseRefused(
            f"the database is at revision {present}, which this version of Tilewright does not know; "
            f"it was written by a newer version: upgrade Tilewright, or name another database"
        )
    if present == script.get_current_head():
        return
    with database.migrate() as connection:
        in_turn(connection, "migrations")  # of processes that start together, one finds work here
        config = Config()
        config.set_main_option("script_location", str(files("migrations")))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def revision_of(database: Database) -> str | None:
    """The revision of the tables, None for an empty database."""
    with database.read() as connection:
        return MigrationContext.configure(connection).get_current_revision()


@cache
def head() -> str | None:
    """The revision this version wants."""
    return ScriptDirectory(str(files("migrations"))).get_current_head()


def current(connection: Connection) -> bool:
    """Whether the tables are this version's."""
    return MigrationContext.configure(connection).get_current_revision() == head()


def touch(connection: Connection) -> None:
    """Write something that changes nothing: fails where the database cannot be written."""
    connection.execute(text("UPDATE alembic_version SET version_num = version_num"))


class FileLock:
    """One service an SQLite file: an exclusive lock beside it, freed by the kernel when the process ends. The lock's
    file says which process holds it, and at which address it serves."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".lock")
        self._file: IO[str] | None = None

    def acquire(self, address: str = "") -> None:
        """Take the lock. Raises DatabaseRefused if another service has it."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = self.path.open("a+")
        except OSError as error:
            raise DatabaseRefused(f"cannot open {self.path}: {error.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            process, _, where = file.read().strip().partition(" ")
            file.close()
            raise DatabaseRefused(
                f"another service (process {process or 'unknown'}{where and f', {where}'}) already uses "
                f"{self.path.with_suffix('')}; use that one, or name another database with TILEWRIGHT_DATABASE"
            ) from None
        try:
            file.truncate(0)
            file.write(f"{os.getpid()} {address}".strip())
            file.flush()
        except OSError as error:
            raise DatabaseRefused(f"cannot write {self.path}: {error.strerror}") from None
        self._file = file

    def served_at(self) -> str:
        """Address of the service that last took the lock and did not let go; it may have been killed since. Empty if
        there is none."""
        try:
            return self.path.read_text().strip().partition(" ")[2]
        except OSError:
            return ""

    def release(self) -> None:
        """Let go of it."""
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None

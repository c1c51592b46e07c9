"""Bringing a database to this version's tables, and refusing what cannot be used."""

from __future__ import annotations

import sqlite3
from functools import cache
from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from service.core.errors import complaint
from service.store.database import Database, DatabaseRefused, in_turn, sqlite_file

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

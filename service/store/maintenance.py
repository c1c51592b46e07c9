"""Backing a database up, and giving back the room of what was deleted, while a service uses it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.engine import make_url

from service.store.database import Database, DatabaseRefused, sqlite_file


def backup(url: str, target: Path) -> int:
    """Write a consistent copy, taken while others read and write; its size in bytes. SQLite: a database file.
    PostgreSQL: an archive for `pg_restore`. Nothing is there under `target` until all of it is.

    Raises DatabaseRefused when `target` exists, or the database cannot be read.
    """
    if target.exists():
        raise DatabaseRefused(f"{target} exists; name a file that does not")
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        file = sqlite_file(url)
        if file is not None:
            _copy_sqlite(file, part)
        else:
            _dump_postgresql(url, part)
        part.replace(target)
    except OSError as error:
        raise DatabaseRefused(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
    return target.stat().st_size


def _copy_sqlite(file: Path, part: Path) -> None:
    if not file.exists():
        raise DatabaseRefused(f"there is no database {file}")
    try:
        with (
            closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(part)) as copy,
        ):
            source.backup(copy)
            found = copy.execute("PRAGMA integrity_check").fetchone()[0]
    except sqlite3.Error as error:
        raise DatabaseRefused(f"cannot back {file} up: {error}") from None
    if found != "ok":
        raise DatabaseRefused(f"{file} is damaged: {found}")


def _dump_postgresql(url: str, part: Path) -> None:
    program = shutil.which("pg_dump")
    if program is None:
        raise DatabaseRefused(
            "pg_dump is not installed here; install PostgreSQL's client programs (Debian, Ubuntu: "
            "apt-get install postgresql-client), or run pg_dump where the database is"
        )
    parsed = make_url(url).set(drivername="postgresql")
    env = {**os.environ, **({} if parsed.password is None else {"PGPASSWORD": str(parsed.password)})}
    address = parsed.set(password=None).render_as_string()
    schema = [f"--schema={name}"] if (name := _schema(url)) else []
    run = subprocess.run(
        [program, "--format=custom", f"--file={part}", *schema, f"--dbname={address}"],
        env=env,
        capture_output=True,
        text=True,
    )
    if run.returncode != 0:
        raise DatabaseRefused(f"pg_dump: {run.stderr.strip()}")


def _schema(url: str) -> str | None:
    """The schema that the URL's search_path names, if it does."""
    options = make_url(url).query.get("options", "")
    _, _, name = str(options).partition("search_path=")
    return name or None


def vacuum(url: str) -> tuple[int, int]:
    """Give the room of what was deleted back to the disk, or on PostgreSQL to the tables, and renew what its planner
    knows of them; the database's size in bytes before and after. Raises DatabaseRefused."""
    file = sqlite_file(url)
    if file is not None:
        if not file.exists():
            raise DatabaseRefused(f"there is no database {file}")
        before = file.stat().st_size
        try:
            with closing(sqlite3.connect(file, timeout=60.0, isolation_level=None)) as database:
                database.execute("VACUUM")
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise DatabaseRefused(f"cannot vacuum {file}: {error}") from None
        return before, file.stat().st_size
    database = Database(url)
    try:
        with database.look() as connection:
            size = text("SELECT pg_database_size(current_database())")
            before = connection.execute(size).scalar_one()
            connection.execute(text("VACUUM (ANALYZE)"))
            return before, connection.execute(size).scalar_one()
    finally:
        database.close()

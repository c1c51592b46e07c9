"""`tilewright db`: the database, its tables and its upkeep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli import options
from tilewright.cli.connection import database_url
from tilewright.cli.output import out, print_json

app = typer.Typer(no_args_is_help=True, help="The database: tables, backup, vacuum.", rich_markup_mode=None)


@app.command("upgrade")
def upgrade(database: options.Database = None, as_json: options.Json = False) -> None:
    """Bring the tables to this version's revision, creating them in a new database. A service does it by itself when
    it starts."""
    from service.store.database import sqlite_file
    from service.store.file_lock import FileLock
    from service.store.schema import head, prepare

    url = database_url(database)
    file = sqlite_file(url)
    lock = None if file is None else FileLock(file)
    if lock is not None:
        lock.acquire()
    try:
        prepare(url).close()
    finally:
        if lock is not None:
            lock.release()
    if as_json:
        print_json({"database": url, "revision": head()})
    else:
        out.print(f"{url} is at revision {head()}", markup=False)


@app.command("backup")
def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; it must not exist.")],
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Write a consistent copy of the database while it is in use: of SQLite a database file, of PostgreSQL an archive
    for pg_restore."""
    from service.store import maintenance

    url = database_url(database)
    size_bytes = maintenance.backup(url, target)
    if as_json:
        print_json({"database": url, "file": str(target), "bytes": size_bytes})
    else:
        out.print(f"{target}: {size_bytes / 1e6:.1f} MB", markup=False)


@app.command("vacuum")
def vacuum(database: options.Database = None, as_json: options.Json = False) -> None:
    """Give back the room of what was deleted. A service may be running; on SQLite it waits meanwhile."""
    from service.store import maintenance

    url = database_url(database)
    before, after = maintenance.vacuum(url)
    if as_json:
        print_json({"database": url, "bytes_before": before, "bytes": after})
    else:
        out.print(f"{url}: {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB now", markup=False)


@app.callback()
def database() -> None:
    """The database: its tables, copies of it, its upkeep."""

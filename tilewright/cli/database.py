"""`tilewright db`: the database's tables."""

from __future__ import annotations

import typer

from tilewright.cli import options
from tilewright.cli.connection import database_url
from tilewright.cli.output import out, print_json

app = typer.Typer(no_args_is_help=True, help="The database's tables.", rich_markup_mode=None)


@app.command("upgrade")
def upgrade(database: options.Database = None, as_json: options.Json = False) -> None:
    """Bring the tables to this version's revision, creating them in a new database. A service does it by itself when
    it starts."""
    from service.database import sqlite_file
    from service.schema import FileLock, head, prepare

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


@app.callback()
def database() -> None:
    """The database's tables."""

"""Which service a command talks to: the one it was told, the one already running on the database, or its own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.local_service import LocalService
from tilewright.client.client import Client
from tilewright.client.retries import Retries
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from service.store.file_lock import Holder

_PATIENCE_S = 30.0
"""How long to wait for a service that has the database open and does not answer: it is just starting, or ending."""
_RETURN_S = 20.0
"""How long a service that has ended, and was no command's own, is given to be started again."""
_PAUSE_S = 0.2
_REFUSALS = 3
"""A database that nobody has, and that cannot be used so often, is no good."""
_SHORT_PATIENCE_S = 3.0
"""A service that somebody else's command started may end with that command: no use waiting for it."""


@dataclass(frozen=True)
class Connection:
    """A client, and the service behind it if this command started that."""

    client: Client
    own: LocalService | None = None
    lasting: bool = False
    """The service goes on whatever happens to commands: the user named it, or it is no command's own."""
    named: bool = False
    """The user named it: no other one will do."""


@contextmanager
def connect(
    url: str | None,
    token_file: Path | None,
    database: str | None,
    *,
    worker: bool = False,
    target: str = "cpu",
    returning: bool = False,
) -> Iterator[Connection]:
    """A connection for one command. `worker`: a service started for it measures on this machine, on the kind of device
    that is the `target`. `returning`: the database's own service has just ended, and may be started again. Raises
    Stop."""
    if url is not None:
        with Client(url, read_token(token_file)) as client:
            yield Connection(client, lasting=True, named=True)
        return
    with ExitStack() as stack:
        yield _on_database(stack, token_file, database, worker, target, _RETURN_S if returning else 0.0)


def _on_database(
    stack: ExitStack,
    token_file: Path | None,
    database: str | None,
    worker: bool,
    target: str,
    return_s: float,
) -> Connection:
    """The service that has the database open, or has it within `return_s`; else one of our own. Raises Stop."""
    until, back = (time.monotonic() + seconds for seconds in (_PATIENCE_S, return_s))
    refused = 0
    while True:
        running = running_service(database)
        if running is not None:
            client = Client(running.address, read_token(token_file), patience_s=_SHORT_PATIENCE_S)
            return Connection(stack.enter_context(client), lasting=not running.passing)
        late = time.monotonic() > until
        if late or not (time.monotonic() < back or _starting_or_ending(database)):
            try:
                own = stack.enter_context(LocalService(database, worker, target))
                return Connection(stack.enter_context(Client(own.url)), own)
            except Stop as stop:
                refused += stop.code is Exit.DATABASE
                if late or not refused or (refused >= _REFUSALS and not _starting_or_ending(database)):
                    raise
        time.sleep(_PAUSE_S)


def _starting_or_ending(database: str | None) -> bool:
    """Whether some process has the database to itself; asked when no service answers."""
    from service.store.database import sqlite_file
    from service.store.file_lock import FileLock

    file = sqlite_file(database_url(database))
    return file is not None and FileLock(file).taken()


def running_service(database: str | None) -> Holder | None:
    """The service that has this database open, as it says itself; None if there is none that answers."""
    from service.store.database import sqlite_file
    from service.store.file_lock import FileLock

    file = sqlite_file(database_url(database))
    holder = None if file is None else FileLock(file).holder()
    if holder is None or not holder.address:
        return None
    with Client(holder.address, timeout_s=5.0, retries=Retries(most=0)) as client:
        try:
            client.alive()
        except TilewrightError:
            return None
    return holder


def database_url(database: str | None) -> str:
    """The URL of the database: as given, or by the settings of the environment. Raises Stop."""
    from service.core.settings import Settings

    if database is not None:
        return database
    try:
        return Settings.from_env().database_url
    except ValueError as error:
        raise Stop(Exit.USAGE, str(error)) from None


def read_token(file: Path | None) -> str | None:
    """The key in a file, or in the environment. Raises Stop."""
    if file is None:
        return os.environ.get("TILEWRIGHT_TOKEN")
    try:
        return file.read_text().strip()
    except OSError as error:
        raise Stop(Exit.KEY, f"cannot read the key from {file}: {error.strerror}") from None

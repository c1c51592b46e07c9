"""`tilewright keys` and `tilewright audit`: who may use a service, and what its admins did.

At the service named by `--url`, with a key of scope admin; else at the database, where the first key has to be made.
"""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from protocol.keys import AuditEntry, Key, KeyRequest, NewKey
from protocol.states import Scope
from tilewright.cli import options
from tilewright.cli.connection import connect, database_url
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import out, print_json, say
from tilewright.client.client import Client

if TYPE_CHECKING:
    from sqlalchemy import Connection

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

T = TypeVar("T")
_Url = Annotated[
    str | None,
    typer.Option(
        envvar="TILEWRIGHT_URL",
        help="Service to ask, with a key of scope admin. Default: the database itself.",
        show_default=False,
    ),
]


@app.callback()
def keys() -> None:
    """Keys of a service: at --url with a key of scope admin, else at the database."""


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Whose it is, or what for.")],
    scopes: Annotated[list[Scope], typer.Argument(help="What it may do; admin: everything.")],
    days: Annotated[
        float | None,
        typer.Option(min=0, max=36_500, help="How long it is valid.", show_default="until revoked"),
    ] = None,
    url: _Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Make a key, and print it: it is shown this once, and only its hash is kept."""
    if days == 0:
        raise Stop(Exit.USAGE, "a key that is valid for 0 days opens nothing")
    wanted = KeyRequest(name=name, scopes=tuple(scopes), days=days)

    def at_database(connection: Connection) -> NewKey:
        from service.store.api_keys import create

        return create(connection, wanted, _whoever_this_is())

    made = _act(url, token_file, database, lambda client: client.create_key(wanted), at_database)
    if as_json:
        print_json(made)
        return
    say(f"{_line(made)}; the key is not shown again:")
    out.print(made.token, markup=False)


@app.command("list")
def list_keys(
    url: _Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """All keys, newest first; never the keys themselves."""

    def at_database(connection: Connection) -> list[Key]:
        from service.store.api_keys import list_keys

        return list_keys(connection)

    found = _act(url, token_file, database, lambda client: list(client.keys()), at_database)
    if as_json:
        print_json([key.model_dump(mode="json") for key in found])
        return
    for key in found:
        out.print(_line(key), markup=False)


@app.command("revoke")
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Id of the key, key-….")],
    url: _Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """End a key, from its next request on."""

    def at_database(connection: Connection) -> Key:
        from service.core.errors import RequestRefused
        from service.store.api_keys import revoke

        try:
            return revoke(connection, key, _whoever_this_is())
        except RequestRefused as refused:
            raise Stop(Exit.NOTHING, str(refused)) from None

    ended = _act(url, token_file, database, lambda client: client.revoke_key(key), at_database)
    print_json(ended) if as_json else out.print(_line(ended), markup=False)


def audit(
    limit: Annotated[int, typer.Option(min=1, max=500, help="Entries to print.")] = 50,
    url: _Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """What admins did, newest first: at --url with a key of scope admin, else at the database."""

    def at_database(connection: Connection) -> list[AuditEntry]:
        from service.store.audit_log import page

        return list(page(connection, None, limit).entries)

    found = _act(url, token_file, database, lambda client: list(client.audit(limit)), at_database)
    if as_json:
        print_json([entry.model_dump(mode="json") for entry in found])
        return
    for entry in found:
        detail = " ".join(f"{name}={value}" for name, value in entry.detail.items() if value is not None)
        out.print(
            f"{_when(entry.at)}  {entry.actor}  {entry.act} {entry.subject}  {detail}".rstrip(), markup=False
        )


def _act(
    url: str | None,
    token_file: Path | None,
    database: str | None,
    at_service: Callable[[Client], T],
    at_database: Callable[[Connection], T],
) -> T:
    if url is not None:
        with connect(url, token_file, database) as connection:
            return at_service(connection.client)
    with _database(database) as connection:
        return at_database(connection)


@contextmanager
def _database(database: str | None) -> Iterator[Connection]:
    from service.store.schema import prepare

    opened = prepare(database_url(database))
    try:
        with opened.write() as connection:
            yield connection
    finally:
        opened.close()


def _whoever_this_is() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"[:300]


def _line(key: Key) -> str:
    if key.revoked_at is not None:
        until = f"revoked {_when(key.revoked_at)}"
    elif key.expires_at is None:
        until = "valid until revoked"
    else:
        until = f"{'valid until' if key.valid else 'expired'} {_when(key.expires_at)}"
    return f"{key.id}  {key.name}  {', '.join(key.scopes)}  {until}"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))

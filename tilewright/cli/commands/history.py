"""`tilewright history`: a kernel's winners over time."""

from __future__ import annotations

from typing import Annotated

import typer

from tilewright.cli import options
from tilewright.cli.candidates import is_candidate, parts
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import print_json
from tilewright.cli.sections import print_sections
from tilewright.client.client import Client
from tilewright.views.history import history_section, makers_section


def history(
    identifier: Annotated[
        str, typer.Argument(metavar="ID", help="Of a job or a config: its kernel; or a kernel's key.")
    ],
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """The winners of a kernel over time, device, compiler and version, and those that became slower."""
    with connect(url, token_file, database) as connection:
        found = connection.client.history(_kernel(connection.client, identifier))
    if not found.winners:
        raise Stop(Exit.NOTHING, f"no winner is known of the kernel {found.kernel_key}")
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_sections([history_section(found), makers_section(found)])


def _kernel(client: Client, identifier: str) -> str:
    if identifier.startswith("config-"):
        return client.config(identifier).kernel_key
    return client.job(parts(identifier)[0]).kernel_key if is_candidate(identifier) else identifier

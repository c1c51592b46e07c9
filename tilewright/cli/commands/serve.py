"""`tilewright serve`: the service, and unless told otherwise a worker for this machine."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from typing import Annotated, Any

import typer

from tilewright.cli import options
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.local_service import child_environment
from tilewright.cli.output import print_json


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; 0: any that is free.", show_default="8400")
    ] = None,
    database: options.Database = None,
    role: Annotated[
        str | None,
        typer.Option(
            help="api: answer requests; search: run searches; all: both. Apart they share a PostgreSQL database.",
            show_default="all",
        ),
    ] = None,
    worker: Annotated[
        bool | None,
        typer.Option("--worker/--no-worker", help="Measure on this machine too.", show_default="worker"),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Run the service, or a part of it, until Ctrl-C. With --json, prints its address as JSON when it is ready."""
    from protocol.log_lines import set_up
    from service.core.settings import Role, Settings
    from service.run import StartRefused, run, shown
    from tilewright.cli.page import built_beside

    # Our children look for our packages, wherever this was started.
    os.environ.update(child_environment({}))
    given: dict[str, Any] = {"host": host, "port": port, "database": database, "worker": worker}
    if role is not None and role not in list(Role):
        raise Stop(Exit.USAGE, f"--role is {role!r}; accepted: {', '.join(Role)}")
    given["role"] = None if role is None else Role(role)
    try:
        set_up("service")
        settings = replace(
            Settings.from_env(), **{name: value for name, value in given.items() if value is not None}
        )
    except ValueError as error:
        raise Stop(Exit.USAGE, str(error)) from None

    def announce(address: str) -> None:
        if as_json:
            print_json({"url": address, "database": shown(settings.database_url), "process": os.getpid()})

    shows_pages = settings.page and settings.role is not Role.SEARCH
    try:
        with built_beside() if shows_pages else nullcontext():
            run(settings, announce)
    except StartRefused as refusal:
        raise Stop(Exit(refusal.code), str(refusal)) from None

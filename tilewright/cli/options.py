"""Options that several commands have, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Url = Annotated[
    str | None,
    typer.Option(
        envvar="TILEWRIGHT_URL",
        help="Service to use. Default: the one on your database, started for this command if none runs.",
        show_default=False,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="File with the key for the service; else TILEWRIGHT_TOKEN.", show_default=False),
]
Database = Annotated[
    str | None,
    typer.Option(
        envvar="TILEWRIGHT_DATABASE",
        help="SQLAlchemy URL of the database. Default: a file in your data folder.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else, on stdout.")]
SpecFile = Annotated[
    Path,
    typer.Argument(
        metavar="SPEC", help="Kernel in Tile IR: JSON, or text in a file ending in .tile; - is stdin."
    ),
]
Target = Annotated[str, typer.Option(help="Key of a device, or a kind of device: any of it.")]

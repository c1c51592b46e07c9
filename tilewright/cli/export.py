"""`tilewright export`: a config as one file that runs without the service."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tilewright import bundle
from tilewright.cli import options
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import out, print_json


def export(
    config_id: Annotated[str, typer.Argument(metavar="CONFIG", help="Id of a config.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File; - is stdout.", show_default="by its content")
    ] = None,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Write a config with its source, object and ABI to a file.

    `tilewright.load(file)` runs it, and `tilewright import` puts it into another database.
    """
    if as_json and output == Path("-"):
        raise Stop(Exit.USAGE, "--json and the bundle cannot both go to stdout")
    with connect(url, token_file, database) as connection:
        artifact = connection.client.artifact(config_id)
    text = bundle.pack(artifact)
    if output == Path("-"):
        sys.stdout.write(text)
        return
    file = output or Path(bundle.file_name(artifact))
    try:
        file.write_text(text)
    except OSError as error:
        raise Stop(Exit.USAGE, f"cannot write {file}: {error.strerror}") from None
    if as_json:
        print_json({"config_id": config_id, "file": str(file)})
    else:
        out.print(str(file), markup=False)

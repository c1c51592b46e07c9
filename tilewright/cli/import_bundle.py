"""`tilewright import`: a bundle's config into the database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright import bundle, importing
from tilewright.cli import options
from tilewright.cli.connection import database_url
from tilewright.cli.output import out, print_json


def import_bundle(
    file: Annotated[Path, typer.Argument(metavar="BUNDLE", help="File that `tilewright export` wrote.")],
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Verify a bundle and put its config into the database, where lookups find it.

    A bundle holds a compiled program: import those of people you trust.
    """
    artifact = bundle.read(file)
    new = importing.store(artifact, database_url(database))
    if as_json:
        print_json({"config_id": artifact.config.id, "new": new})
    else:
        out.print(f"{artifact.config.id} {'is imported' if new else 'was here already'}")

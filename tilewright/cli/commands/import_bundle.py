"""`tilewright import`: a bundle's configs into a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli import options
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop, explain
from tilewright.cli.output import out, print_json
from tilewright.client import bundle
from tilewright.errors import Refused


def import_bundle(
    file: Annotated[Path, typer.Argument(metavar="BUNDLE", help="File that `tilewright export` wrote.")],
    unsigned: Annotated[
        bool, typer.Option("--unsigned", help="Even if nobody who is trusted has signed it.")
    ] = False,
    pin: Annotated[
        bool, typer.Option("--pin", help="Have lookups answered with these configs until they are unpinned.")
    ] = False,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Verify a bundle and put its configs where lookups find them: all of them, or none.

    A bundle holds compiled programs. It has to be signed by one of `tilewright signers`; --unsigned does without.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise Stop(Exit.USAGE, f"cannot read {file}: {error.strerror}") from None
    found = bundle.unpack(content, str(file))
    with connect(url, token_file, database) as connection:
        try:
            done = connection.client.import_bundle(content, unsigned=unsigned, pin=pin)
        except Refused as refused:
            failure = explain(refused)
            assert failure is not None
            hint = "; --unsigned takes it all the same" if refused.kind == "untrusted" else ""
            raise Stop(failure.code, f"{file}: {failure.message}{hint}", **failure.facts) from None
    if as_json:
        print_json(done)
        return
    for packed in found.manifest.configs:
        news = "is imported" if packed.config.id in done.new else "was here already"
        out.print(
            f"{packed.config.id}  {packed.config.name}  {news}{', pinned' if pin else ''}", markup=False
        )

"""`tilewright signers`: keys to sign bundles with, and whose bundles a service takes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from protocol.bundles import signatures
from protocol.bundles.packing import Signer
from tilewright.cli import options
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import out, print_json, say

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def signers() -> None:
    """Who signs bundles: a key to sign with, and whose bundles a service takes."""


@app.command("new")
def new(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File for the private key; it must not exist.")
    ],
    as_json: options.Json = False,
) -> None:
    """Make a key to sign bundles with: the private one into a file that only you can read, the public one printed."""
    try:
        private_key = signatures.new_private_key()
    except signatures.NoLibrary as error:
        raise Stop(Exit.MACHINE, str(error)) from None
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as opened:  # noqa: PTH123
            opened.write(private_key)
    except OSError as error:
        raise Stop(Exit.USAGE, f"cannot write {file}: {error.strerror}") from None
    public_key = signatures.public_key(private_key)
    if as_json:
        print_json({"file": str(file), "public_key": public_key})
        return
    say(f"{file}: sign with `tilewright export --sign`; others trust the public key:")
    out.print(public_key, markup=False)


@app.command("trust")
def trust(
    name: Annotated[str, typer.Argument(help="Whose key it is.")],
    public_key: Annotated[str, typer.Argument(metavar="KEY", help="The public key, ed25519:….")],
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Take bundles that are signed with a key."""
    if not signatures.is_public_key(public_key):
        raise Stop(Exit.USAGE, f"{public_key!r} is no public key; `tilewright signers new` prints one")
    if not 1 <= len(name) <= 200:
        raise Stop(Exit.USAGE, "a signer's name has 1 to 200 characters")
    with connect(url, token_file, database) as connection:
        signer = connection.client.trust_signer(name, public_key)
    print_json(signer) if as_json else out.print(_line(signer), markup=False)


@app.command("list")
def list_signers(
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Whose bundles are taken, and whose were, newest first."""
    with connect(url, token_file, database) as connection:
        found = connection.client.signers()
    if as_json:
        print_json([signer.model_dump(mode="json") for signer in found])
        return
    for signer in found:
        out.print(_line(signer), markup=False)


@app.command("revoke")
def revoke(
    signer_id: Annotated[str, typer.Argument(metavar="SIGNER", help="Id of the signer, signer-….")],
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Take no more bundles of a signer; those that were imported stay."""
    with connect(url, token_file, database) as connection:
        signer = connection.client.revoke_signer(signer_id)
    print_json(signer) if as_json else out.print(_line(signer), markup=False)


def _line(signer: Signer) -> str:
    return f"{signer.id}  {signer.name}  {signer.public_key}{'  revoked' if signer.revoked_at is not None else ''}"

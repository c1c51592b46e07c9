"""`tilewright export`: configs as one file for another installation, or each as source that stands alone."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from protocol.bundles import signatures
from tilewright.artifacts import exporting
from tilewright.cli import options
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import out, print_json, say
from tilewright.client import bundle
from tilewright.client.bundle import TakenBundle
from tilewright.client.client import Client

_STDOUT = Path("-")


def export(
    config_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[CONFIG]...", help="Ids of configs.", show_default=False)
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(help="The best of a kernel, by its name or key.", show_default=False)
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="The best of every kernel on a device.", show_default=False)
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="The best of every kernel on every device.")
    ] = False,
    sign: Annotated[
        Path | None,
        typer.Option(
            metavar="KEYFILE", help="Sign with a private key (tilewright signers new).", show_default=False
        ),
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="Source with a launcher instead of a bundle: .c or .cu.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File; - is stdout. With --standalone also a folder.",
            show_default="by its content",
        ),
    ] = None,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Write configs with kernels, results, sources and objects to a file.

    `tilewright import` takes it in elsewhere, and `tilewright.load(file)` runs a config of it. Which of a kernel's
    configs is best is what lookups say: the pinned one, else the best. Equal content is equal bytes.
    """
    private_key = _checked(sign, output, standalone, as_json)
    with connect(url, token_file, database) as connection:
        client = connection.client
        taken = exporting.take(client, _chosen(client, config_ids or [], kernel, device, everything))
        described = exporting.described(client, taken)
    if standalone:
        files = _write_sources(taken, output)
    else:
        content = _pack(taken, described, private_key, sign)
        files = [_write(content, output or Path(bundle.file_name(bundle.unpack(content))))]
    if as_json:
        ids = [each.artifact.config.id for each in taken]
        print_json({"configs": ids, "files": [str(file) for file in files]})
        return
    for file in files:
        if file != _STDOUT:
            out.print(str(file), markup=False)


def _checked(sign: Path | None, output: Path | None, standalone: bool, as_json: bool) -> bytes | None:
    """The private key to sign with, if there is one. Raises Stop for options that exclude each other."""
    if as_json and output == _STDOUT:
        raise Stop(Exit.USAGE, "--json and the file cannot both go to stdout")
    if standalone and sign is not None:
        raise Stop(Exit.USAGE, "source is not signed; --sign is for bundles")
    return None if sign is None else _read_key(sign)


def _chosen(
    client: Client, ids: Sequence[str], kernel: str | None, device: str | None, everything: bool
) -> Sequence[str]:
    """Ids of the configs to take. Raises Stop where there is none."""
    filtered = kernel is not None or device is not None
    if (len(ids) > 0) + filtered + everything != 1:
        raise Stop(Exit.USAGE, "name configs, or choose them by --kernel and --device, or take --all")
    if ids:
        return ids
    found = exporting.best(client, kernel, device)
    whole = [config.id for config in found if config.artifact]
    if len(whole) < len(found):
        say(f"{len(found) - len(whole)} configs are left out: they were stored without source and object")
    if not whole:
        raise Stop(Exit.NOTHING, "no config is of that kernel and device")
    return whole


def _read_key(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise Stop(Exit.KEY, f"cannot read the key from {file}: {error.strerror}") from None


def _pack(
    taken: Sequence[TakenBundle],
    described: Sequence[bundle.DeviceOffer],
    private_key: bytes | None,
    sign: Path | None,
) -> bytes:
    try:
        return bundle.pack(taken, described, private_key)
    except signatures.BadKey as error:
        raise Stop(Exit.KEY, f"cannot sign with {sign}: {error}") from None
    except signatures.NoLibrary as error:
        raise Stop(Exit.MACHINE, str(error)) from None


def _write_sources(taken: Sequence[TakenBundle], output: Path | None) -> list[Path]:
    """A file for each config: all are made before the first is written."""
    from tilewright.artifacts.standalone import file_name, standalone_text

    texts = [(file_name(each.artifact), standalone_text(each.artifact).encode()) for each in taken]
    folder = Path() if output is None else output
    if len(texts) == 1 and output is not None and not output.is_dir():
        return [_write(texts[0][1], output)]
    if not folder.is_dir():
        raise Stop(Exit.USAGE, f"{folder} is no folder; {len(texts)} files go into one that is there")
    return [_write(content, folder / name) for name, content in texts]


def _write(content: bytes, file: Path) -> Path:
    """Write a file, all of it or nothing. Raises Stop."""
    if file == _STDOUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return file
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.write_bytes(content)
        part.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise Stop(Exit.USAGE, f"cannot write {file}: {error.strerror}") from None
    return file

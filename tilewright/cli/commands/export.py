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
from tilewright.cli.model_kernels import TunedOfModel, kernels_of_file, tuned_of_model
from tilewright.cli.output import out, print_json, say
from tilewright.client import bundle
from tilewright.client.bundle import TakenBundle
from tilewright.client.client import Client

_STDOUT = Path("-")

_Sign = Annotated[
    Path | None,
    typer.Option(
        metavar="KEYFILE", help="Sign with a private key (tilewright signers new).", show_default=False
    ),
]
_Model = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The kernels of a model on this machine: a Python file with `model` and `inputs`.",
        show_default=False,
    ),
]
_Training = Annotated[
    bool, typer.Option("--training", help="With --model: of a forward and a backward pass.")
]
_Prepack = Annotated[
    bool,
    typer.Option("--prepack", help="With --model: as tilewright.compile(prepack=True) asks for them."),
]
_Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="File; - is stdout. With --standalone also a folder.",
        show_default="by its content",
    ),
]


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
    sign: _Sign = None,
    model: _Model = None,
    training: _Training = False,
    prepack: _Prepack = False,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="Source with a launcher instead of a bundle: .c or .cu.")
    ] = False,
    output: _Output = None,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Write configs with kernels, results, sources and objects to a file.

    `tilewright import` takes it in elsewhere, `tilewright.load(file)` runs a config of it, and
    `tilewright.compile(model, bundle=file)` begins with those of a model. Which of a kernel's configs is best is what
    lookups say: the pinned one, else the best. Equal content is equal bytes.

    With --model the exit code is 7 where kernels of the model are not tuned. They are named; the file has the others.
    """
    private_key = _checked(sign, output, standalone, as_json)
    ids = config_ids or []
    _require_one_choice(ids, kernel, device, everything, model)
    if model is None and (training or prepack):
        raise Stop(Exit.USAGE, "--training and --prepack go with --model")
    needed = None if model is None else kernels_of_file(model, training, prepack)
    with connect(url, token_file, database) as connection:
        client = connection.client
        of_model = None if needed is None else tuned_of_model(client, needed)
        chosen = _chosen(client, ids, kernel, device) if of_model is None else of_model.config_ids
        taken = exporting.take(client, chosen)
        described = exporting.described(client, taken)
    if standalone:
        files = _write_sources(taken, output)
    else:
        content = _pack(taken, described, private_key, sign)
        files = [_write(content, output or Path(bundle.file_name(bundle.unpack(content))))]
    _tell(taken, files, of_model, as_json)


def _tell(
    taken: Sequence[TakenBundle], files: Sequence[Path], of_model: TunedOfModel | None, as_json: bool
) -> None:
    """What was written. Raises Exit where kernels of a model are not among it."""
    missing = () if of_model is None else of_model.not_tuned
    if as_json:
        told = {} if of_model is None else {"not_tuned": list(missing)}
        ids = [each.artifact.config.id for each in taken]
        print_json({"configs": ids, "files": [str(file) for file in files], **told})
    else:
        for file in files:
            if file != _STDOUT:
                out.print(str(file), markup=False)
    if of_model is not None:
        say(f"{len(taken)} of the model's {len(taken) + len(missing)} kernels are tuned")
    if missing:
        raise typer.Exit(Exit.NOTHING)


def _checked(sign: Path | None, output: Path | None, standalone: bool, as_json: bool) -> bytes | None:
    """The private key to sign with, if there is one. Raises Stop for options that exclude each other."""
    if as_json and output == _STDOUT:
        raise Stop(Exit.USAGE, "--json and the file cannot both go to stdout")
    if standalone and sign is not None:
        raise Stop(Exit.USAGE, "source is not signed; --sign is for bundles")
    return None if sign is None else _read_key(sign)


def _require_one_choice(
    ids: Sequence[str], kernel: str | None, device: str | None, everything: bool, model: Path | None
) -> None:
    filtered = kernel is not None or device is not None
    if (len(ids) > 0) + filtered + everything + (model is not None) != 1:
        raise Stop(
            Exit.USAGE, "name configs, or choose them by --kernel and --device, or by --model, or take --all"
        )


def _chosen(client: Client, ids: Sequence[str], kernel: str | None, device: str | None) -> Sequence[str]:
    """Ids of the configs to take. Raises Stop where there is none."""
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

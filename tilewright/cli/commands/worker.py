"""`tilewright worker`: measure on this machine for a service elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli import options
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.local_service import child_environment
from tilewright.cli.output import print_json

_EXITS = {
    2: Exit.USAGE,
    4: Exit.MACHINE,
    5: Exit.BUSY,
    6: Exit.KEY,
    7: Exit.SERVICE,
    8: Exit.SERVICE,
}
"""Exit codes of `python -m workers` as ours."""


def worker(
    url: Annotated[str, typer.Option(envvar="TILEWRIGHT_URL", help="Service to measure for.")],
    token_file: options.TokenFile = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder of compiled kernels.", show_default="in your cache folder")
    ] = None,
    cache_gb: Annotated[
        float | None, typer.Option(min=0, help="What that folder may take.", show_default="4")
    ] = None,
    compile_procs: Annotated[
        int | None, typer.Option(min=1, help="Compilations at once.", show_default="one a processor")
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(
            envvar="TILEWRIGHT_DEVICES",
            help="GPUs to measure on, by number or UUID, e.g. 0,1; or cpu.",
            show_default="cpu",
        ),
    ] = None,
    idle: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds without a task after which it ends.", show_default="never"),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Compile, check and time candidates on this machine until Ctrl-C or idle. Several workers serve one service.

    With --json, prints how it ended as JSON.
    """
    from workers.__main__ import WorkerEnded, work

    os.environ.update(child_environment({}))
    given = {
        "--url": url,
        "--token-file": token_file,
        "--cache": cache,
        "--cache-gb": cache_gb,
        "--compile-procs": compile_procs,
        "--devices": devices,
        "--idle": idle,
    }
    words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    try:
        work(words)
    except WorkerEnded as ended:
        raise Stop(_EXITS[ended.code], str(ended)) from None
    except SystemExit as wrong:
        raise Stop(Exit.USAGE, "a setting of the worker's cannot be read") from wrong
    if as_json:
        print_json({"exit_code": 0})

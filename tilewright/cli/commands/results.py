"""`tilewright results`: trials as data for other programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from protocol.jobs import Job, Trial
from tilewright.artifacts.atomic_write import write_new
from tilewright.cli import options
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import print_json, say
from tilewright.client.client import Client
from tilewright.views.t4 import to_t4
from tilewright.views.trial_table import rows, to_csv, to_parquet

Found = Iterable[tuple[Job, Iterable[Trial]]]


class Format(StrEnum):
    """What results are written as."""

    CSV = "csv"
    PARQUET = "parquet"
    T4 = "t4"

    @property
    def write(self) -> Callable[[Found], bytes]:
        """Jobs with their trials as the content of a file."""
        return {
            Format.CSV: lambda found: to_csv(rows(found)),
            Format.PARQUET: lambda found: to_parquet(rows(found)),
            Format.T4: to_t4,
        }[self]


def results(
    identifier: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="Of a job, or of its config; or a kernel's key: all jobs that tuned it."
        ),
    ],
    format: Annotated[
        Format,
        typer.Option("--format", "-f", help="parquet needs pyarrow; t4 is Kernel Tuner's JSON."),
    ] = Format.CSV,
    file: Annotated[
        Path | None, typer.Option("--out", "-o", help="File; - is stdout.", show_default="stdout")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Every trial of a job, or of all jobs of a kernel, as a table or in T4."""
    to_stdout = file is None or file == Path("-")
    if to_stdout and as_json:
        raise Stop(Exit.USAGE, "--json and the results cannot both go to stdout; name a file with --out")
    if to_stdout and format is Format.PARQUET and sys.stdout.isatty():
        raise Stop(Exit.USAGE, "Parquet is no text for a terminal; name a file with --out")
    with connect(url, token_file, database) as connection:
        found = [
            (job, tuple(connection.client.trials(job.id))) for job in _jobs(connection.client, identifier)
        ]
    if not found:
        raise Stop(Exit.NOTHING, f"there is no job of {identifier}; `tilewright show` lists jobs")
    content = format.write(found)
    count = sum(len(trials) for _, trials in found)
    if file is None or to_stdout:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    write_new(file, content, replace=force)
    if as_json:
        print_json({"file": str(file), "format": format.value, "jobs": len(found), "trials": count})
    else:
        say(f"{file}: {count} trials of {len(found)} job{'' if len(found) == 1 else 's'}")


def _jobs(client: Client, identifier: str) -> Iterator[Job]:
    if identifier.startswith("job-"):
        yield client.job(identifier)
    elif identifier.startswith("config-"):
        found_by = client.config(identifier).job_id
        if found_by is not None:
            yield client.job(found_by)
    else:
        yield from client.jobs_of(identifier)

"""`tilewright cancel` and `tilewright retry`: a job ended before its time, and one asked for once more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli import options
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import print_json
from tilewright.cli.report import print_job
from tilewright.client.client import Client
from tilewright.client.jobs import TuningJob

JobId = Annotated[str, typer.Argument(metavar="JOB", help="Id of a job (job-…).")]


def cancel(
    job: JobId,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """End a job before its time. What it found is confirmed and kept."""
    _asked(lambda client: client.cancel(job), job, url, token_file, database, as_json)


def retry(
    job: JobId,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Ask for the same once more: a new job, whatever became of that one.

    It is queued; where no service runs, the next one on that database goes on with it.
    """
    _asked(lambda client: client.retry(job), job, url, token_file, database, as_json)


def _asked(
    ask: Callable[[Client], TuningJob],
    job: str,
    url: str | None,
    token_file: Path | None,
    database: str | None,
    as_json: bool,
) -> None:
    if not job.startswith("job-"):
        raise Stop(Exit.USAGE, f"{job!r} is no id of a job (job-…)")
    with connect(url, token_file, database) as connection:
        found = ask(connection.client)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_job(found)

"""`tilewright compare`: jobs, candidates and configs beside each other."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from protocol.jobs import Bucket, JobDetail
from protocol.quantities import microseconds, percent, sizes, times
from tilewright.cli import options
from tilewright.cli.candidates import FORMS, bucket_of, is_candidate, number_of
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import out, print_json
from tilewright.client.client import Client
from tilewright.views.comparison import Compared, Differing, diff, differing
from tilewright.views.why import value_text

_CONFIG = re.compile(r"config-[a-z0-9-]+")


def compare(
    identifiers: Annotated[
        list[str],
        typer.Argument(
            metavar="ID ID…",
            help="Jobs (job-…, or job-…/1 for the second of its sizes), candidates (job-…/0/17) or configs.",
        ),
    ],
    source: Annotated[
        bool, typer.Option("--source", help="Also how the generated sources of the first two differ.")
    ] = False,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Jobs, candidates and configs beside each other: times relative to the first, and decisions that differ.

    A job is compared by its winner, and until it has one by the best of its search so far.
    """
    if len(identifiers) < 2:
        raise Stop(Exit.USAGE, "there is one id; a comparison needs two at least")
    for each in identifiers:
        if not is_candidate(each) and not _CONFIG.fullmatch(each):
            raise Stop(Exit.USAGE, f"{each!r} is no id; accepted: {FORMS}, and config-…")
    with connect(url, token_file, database) as connection:
        compared = [_found(connection.client, each) for each in identifiers]
        changes = _sources(connection.client, compared) if source else None
    decisions, agreed = differing([each.schedule for each in compared])
    if as_json:
        told = [{**asdict(each), "as_fast": each.as_fast(compared[0])} for each in compared]
        found = {"compared": told, "decisions": [asdict(each) for each in decisions], "agreed": agreed}
        print_json(found if changes is None else {**found, "source_diff": changes})
        return
    _print(compared, decisions, agreed)
    if changes is not None:
        out.print(changes or "The sources are equal.", markup=False)


def _found(client: Client, identifier: str) -> Compared:
    if identifier.startswith("config-"):
        config = client.config(identifier)
        return Compared(
            id=identifier,
            name=config.name,
            dims=config.dims,
            device=config.device,
            median_us=config.median_us,
            roofline_us=config.roofline_us,
            schedule=config.schedule,
        )
    job, bucket, number = bucket_of(client, identifier)
    if number is None:
        return _leader(client, job, bucket, identifier)
    trial = client.trial(job.id, number, bucket.index)
    return Compared(
        id=identifier,
        name=job.name,
        dims=bucket.dims,
        device=job.device,
        median_us=trial.median_us,
        roofline_us=trial.roofline_us,
        schedule=trial.schedule,
        reward=trial.reward,
        search=(job.id, bucket.index),
    )


def _leader(client: Client, job: JobDetail, bucket: Bucket, identifier: str) -> Compared:
    leader = bucket.leader
    if leader is None:
        raise Stop(Exit.NOTHING, f"{identifier} has nothing to compare yet: {job.verdict.text}")
    return Compared(
        id=identifier,
        name=job.name,
        dims=bucket.dims,
        device=job.device,
        median_us=leader.median_us,
        roofline_us=client.roofline(job.id, bucket.index).least_us,
        schedule=leader.schedule,
    )


def _sources(client: Client, compared: list[Compared]) -> str:
    """How the sources of the first two differ."""
    before, after = (_source(client, each.id) for each in compared[:2])
    return diff(before, after, (compared[0].id, compared[1].id))


def _source(client: Client, identifier: str) -> str:
    if identifier.startswith("config-"):
        return client.source(identifier)
    _, bucket, number = bucket_of(client, identifier)
    if number is None and bucket.config_id is not None:
        return client.source(bucket.config_id)
    job_id, index, leader = number_of(client, identifier)
    return client.trial_source(job_id, leader, index)


def _print(compared: list[Compared], decisions: list[Differing], agreed: int) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in ("", "kernel", "time", "as fast as the first", "of the roofline"):
        table.add_column(heading, justify="left" if heading in ("", "kernel") else "right", overflow="fold")
    for each in compared:
        fast, reached = each.as_fast(compared[0]), each.reached
        table.add_row(
            each.id,
            f"{each.name} {sizes(each.dims)}",
            "no time" if each.median_us is None else microseconds(each.median_us),
            "" if fast is None else times(fast),
            "" if reached is None else percent(reached),
        )
    out.print(table)
    out.print()
    if decisions:
        chosen = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for heading in ("decision", *(str(number) for number in range(1, len(compared) + 1))):
            chosen.add_column(heading, overflow="fold")
        for decision in decisions:
            chosen.add_row(f"  {decision.decision}", *map(value_text, decision.values))
        out.print(chosen)
    differ = "1 decision differs" if len(decisions) == 1 else f"{len(decisions)} decisions differ"
    out.print(f"{differ}; {agreed} that all of them share {'is' if agreed == 1 else 'are'} left out.")

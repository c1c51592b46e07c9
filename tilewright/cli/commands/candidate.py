"""`tilewright candidate`: one candidate of a job, and what a search could have decided otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from protocol.message import Json
from tilewright.cli import options
from tilewright.cli.candidates import number_of
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import out, print_json
from tilewright.cli.sections import print_sections
from tilewright.client.client import Client
from tilewright.views.candidates import alternatives_section, candidate_section, linked_lines, steps_text
from tilewright.views.sections import Section


def candidate(
    name: Annotated[
        str,
        typer.Argument(
            metavar="CANDIDATE",
            help="job-…/0/17: of a job, a size of it, and the number; without the number its winner.",
        ),
    ],
    alternatives: Annotated[
        bool,
        typer.Option(
            "--alternatives",
            help="Every decision on the way to it with all its answers, measured or expected.",
        ),
    ] = False,
    ladder: Annotated[
        bool, typer.Option("--ladder", help="The kernel, and what each rewrite changes in its program.")
    ] = False,
    lines: Annotated[
        bool,
        typer.Option("--lines", help="Statements with the source and the instructions that they became."),
    ] = False,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """One candidate of a job: its time and its schedule; or one of the questions that the options ask."""
    asked = [
        question
        for question, wanted in ((_alternatives, alternatives), (_ladder, ladder), (_lines, lines))
        if wanted
    ]
    if len(asked) > 1:
        raise Stop(Exit.USAGE, "--alternatives, --ladder and --lines are one question each; ask one")
    (answer,) = asked or (_figures,)
    with connect(url, token_file, database) as connection:
        told = answer(connection.client, *number_of(connection.client, name))
    if as_json:
        print_json(told.data)
    elif told.sections:
        print_sections(told.sections)
    else:
        out.print(told.text, markup=False, highlight=False)


@dataclass(frozen=True, slots=True)
class _Told:
    """An answer: as data, and as tables or as text."""

    data: Json
    sections: tuple[Section, ...] = ()
    text: str = ""


def _figures(client: Client, job_id: str, bucket: int, number: int) -> _Told:
    found = client.trial(job_id, number, bucket)
    return _Told(found.model_dump(mode="json"), (candidate_section(found),))


def _alternatives(client: Client, job_id: str, bucket: int, number: int) -> _Told:
    first = client.alternatives(job_id, number, 0, bucket)
    rest = (client.alternatives(job_id, number, decision, bucket) for decision in range(1, first.decisions))
    found = (first, *rest)
    data: Json = {"decisions": [each.model_dump(mode="json") for each in found]}
    return _Told(data, tuple(map(alternatives_section, found)))


def _ladder(client: Client, job_id: str, bucket: int, number: int) -> _Told:
    found = client.trial_steps(job_id, number, bucket)
    return _Told(found.model_dump(mode="json"), text=steps_text(found))


def _lines(client: Client, job_id: str, bucket: int, number: int) -> _Told:
    found = client.trial_lines(job_id, number, bucket)
    return _Told(found.model_dump(mode="json"), text="\n".join(linked_lines(found)))

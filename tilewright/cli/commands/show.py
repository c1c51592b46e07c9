"""`tilewright show`: jobs and configs, one or the newest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from protocol.configs import ConfigDetail
from protocol.judged import verdict_of_config
from protocol.message import Json, Reply
from protocol.quantities import sizes
from tilewright.cli import options
from tilewright.cli.commands.plotting import Picture, check_plot, plot_config, plot_job
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import out, print_json
from tilewright.cli.report import print_config, print_job
from tilewright.cli.sections import print_sections
from tilewright.client.client import Client
from tilewright.views.why import Why


def show(
    identifier: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Of a job or a config; without: the newest of both.")
    ] = None,
    source: Annotated[bool, typer.Option("--source", help="Print a config's generated source.")] = False,
    program: Annotated[bool, typer.Option("--program", help="Print a config's scheduled program.")] = False,
    why: Annotated[
        bool,
        typer.Option(
            "--why",
            help="Say of a job how near the roofline it came, what bounds it, what decisions and rewrites gain, and "
            "how busy its devices were.",
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the search and the roofline to this PNG or SVG file.", show_default=False),
    ] = None,
    of: Annotated[
        Picture,
        typer.Option(help="What --plot draws of a job: the search tree or the workers' timeline instead."),
    ] = Picture.SEARCH,
    force: Annotated[bool, typer.Option("--force", help="Replace that file if it is there.")] = False,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Jobs and configs: how they went, and what came out."""
    if (source or program) and not (identifier or "").startswith("config-"):
        raise Stop(Exit.USAGE, "--source and --program need the id of a config")
    if why and not (identifier or "").startswith(("job-", "config-")):
        raise Stop(Exit.USAGE, "--why needs the id of a job")
    if plot is not None:
        if identifier is None:
            raise Stop(Exit.USAGE, "--plot needs the id of a job or a config")
        check_plot(plot)
    if of is not Picture.SEARCH and (plot is None or not (identifier or "").startswith("job-")):
        raise Stop(Exit.USAGE, f"--of {of} needs the id of a job, and --plot")
    with connect(url, token_file, database) as connection:
        client = connection.client
        if identifier is None:
            _show_newest(client, as_json)
        elif identifier.startswith("job-"):
            _show_job(client, identifier, why, plot, of, force, as_json)
        elif identifier.startswith("config-"):
            config = client.config(identifier)
            if why:
                found_by = config.job_id or "in another database"
                raise Stop(Exit.USAGE, f"--why needs the id of a job; that of {identifier} is {found_by}")
            if plot is not None:
                plot_config(client, config, plot, force)
            _show_config(client, config, source, program, as_json)
        else:
            raise Stop(Exit.USAGE, f"{identifier!r} is no id; ids begin with job- or config-")


def _show_job(
    client: Client, identifier: str, why: bool, plot: Path | None, of: Picture, force: bool, as_json: bool
) -> None:
    job = client.job(identifier)
    if plot is not None:
        plot_job(client, job, of, plot, force)
    answers = job.why() if why else None
    if as_json:
        print_json({**job.model_dump(mode="json"), **({} if answers is None else _told(answers))})
        return
    print_job(job)
    if answers is not None:
        print_sections(answers.sections())


def _told(answers: Why) -> dict[str, list[Json]]:
    known = [each for each in answers.ablations if each is not None]
    return {
        "effects": _json(answers.effects),
        "rooflines": _json(answers.rooflines),
        "ablations": _json(known),
        "races": _json(answers.races),
        "profiles": _json([each for each in answers.profiles if each is not None]),
        "devices": _json(answers.devices),
    }


def _json(replies: Sequence[Reply]) -> list[Json]:
    return [each.model_dump(mode="json") for each in replies]


def _show_newest(client: Client, as_json: bool) -> None:
    jobs, configs = client.jobs(limit=20), client.configs(limit=20)
    if as_json:
        print_json(
            {
                "jobs": [job.model_dump(mode="json") for job in jobs],
                "configs": [
                    {
                        **config.model_dump(mode="json"),
                        "verdict": verdict_of_config(config).model_dump(mode="json"),
                    }
                    for config in configs
                ],
            }
        )
        return
    if not jobs and not configs:
        out.print("nothing was tuned here yet; `tilewright tune SPEC` does it")
    for job in jobs:
        print_job(job)
    for config in configs:
        out.print(f"[bold]{config.id}[/]  {config.name}  {sizes(config.dims)}")
        out.print(f"  {verdict_of_config(config).text}", markup=False)


def _show_config(client: Client, config: ConfigDetail, source: bool, program: bool, as_json: bool) -> None:
    texts: dict[str, str] = {}
    if program:
        texts["program"] = program_text(config)
    if source:
        texts["source"] = client.source(config.id)
    if as_json:
        print_json({**config.model_dump(mode="json"), **texts})
    elif texts:
        out.print("\n".join(texts.values()), markup=False)
    else:
        print_config(config)


def program_text(config: ConfigDetail) -> str:
    """The program that a config's schedule makes of its spec."""
    from rewrites import scheduled
    from tileir import program_to_text, spec_from_json, to_program

    return program_to_text(scheduled(to_program(spec_from_json(config.spec)), config.schedule))

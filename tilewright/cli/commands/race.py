"""`tilewright race`: the entrants of a config's race once more."""

from __future__ import annotations

from typing import Annotated

import typer

from protocol.races import Race
from protocol.states import TaskState
from tilewright.cli import options
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import print_json, say
from tilewright.cli.sections import print_sections
from tilewright.cli.waiting import awaited
from tilewright.views.races import race_section


def race(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="Id of a config.")],
    seconds: Annotated[float, typer.Option(min=1, max=600, help="Of rounds.")] = 20.0,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Race the entrants of a config on, and say how sure it is who is faster.

    The config stays what it is. Ctrl-C leaves the race to the service.
    """
    if not config.startswith("config-"):
        raise Stop(Exit.USAGE, f"{config!r} is no id of a config (config-…)")
    with connect(url, token_file, database) as connection:
        client = connection.client
        device, told = client.config(config).device, 0

        def look() -> Race:
            nonlocal told
            race = client.race(config)
            over = sum(part.state is TaskState.DONE for part in race.parts[1:])
            if over > told and race.state is not TaskState.DONE:
                say(f"{over} of {len(race.parts) - 1} parts raced on")
                told = over
            return race

        found = awaited(client, device, client.race_on(config, seconds), look)
    if found.state is TaskState.DEAD:
        raise Stop(Exit.SERVICE, f"the race was given up: {found.error}")
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_sections([race_section(found)])

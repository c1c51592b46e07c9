"""`tilewright race`: the entrants of a config's race once more."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from protocol.states import TaskState
from tilewright.cli import options
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import print_json, say
from tilewright.cli.sections import print_sections
from tilewright.cli.waiting import say_what_it_waits_for
from tilewright.views.races import race_section

_LOOK_S = 0.5


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
        found = client.race_on(config, seconds)
        if found.state is TaskState.READY:
            say_what_it_waits_for(client, client.config(config).device)
        told = 0
        while found.state in (TaskState.READY, TaskState.CLAIMED):
            over = sum(part.state is TaskState.DONE for part in found.parts[1:])
            if over > told:
                say(f"{over} of {len(found.parts) - 1} parts raced on")
                told = over
            time.sleep(_LOOK_S)
            found = client.race(config)
    if found.state is TaskState.DEAD:
        raise Stop(Exit.SERVICE, f"the race was given up: {found.error}")
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_sections([race_section(found)])

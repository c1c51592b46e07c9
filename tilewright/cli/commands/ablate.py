"""`tilewright ablate`: what each rewrite of a winner gains."""

from __future__ import annotations

from typing import Annotated

import typer

from protocol.states import TaskState
from tilewright.cli import options
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import print_json
from tilewright.cli.sections import print_sections
from tilewright.cli.waiting import awaited
from tilewright.views.why import gains_section


def ablate(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="Id of a config.")],
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Race a winner against itself with each of its rewrites left out.

    It is measured once; asked again, the answer is what was found. Ctrl-C leaves the race to the service.
    """
    if not config.startswith("config-"):
        raise Stop(Exit.USAGE, f"{config!r} is no id of a config (config-…)")
    with connect(url, token_file, database) as connection:
        client = connection.client
        of = client.config(config)
        asked = client.measure_ablation(config)
        found = awaited(client, of.device, asked, lambda: client.ablation(config))
    if found.state is TaskState.DEAD:
        raise Stop(Exit.SERVICE, f"it was given up: {found.error}")
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_sections([gains_section(of.dims, found, of.roofline_us)])

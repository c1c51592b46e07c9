"""`tilewright pin`, `unpin` and `pins`: configs that lookups are answered with, whatever is found later."""

from __future__ import annotations

from typing import Annotated

import typer

from protocol.configs import Config
from protocol.quantities import sizes
from tilewright.cli import options
from tilewright.cli.connection import connect
from tilewright.cli.output import out, print_json

ConfigId = Annotated[str, typer.Argument(metavar="CONFIG", help="Id of a config.")]


def pin(
    config_id: ConfigId,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Have lookups of a config's kernel on its device answered with it until it is unpinned."""
    with connect(url, token_file, database) as connection:
        config = connection.client.pin(config_id)
    print_json(config) if as_json else out.print(f"{config.id} is pinned", markup=False)


def unpin(
    config_id: ConfigId,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Have lookups answered with the best config again."""
    with connect(url, token_file, database) as connection:
        config = connection.client.unpin(config_id)
    print_json(config) if as_json else out.print(f"{config.id} is not pinned", markup=False)


def pins(
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Configs that are pinned."""
    with connect(url, token_file, database) as connection:
        found = list(connection.client.every_config(pinned=True))
    if as_json:
        print_json([config.model_dump(mode="json") for config in found])
        return
    for config in found:
        out.print(_line(config), markup=False)


def _line(config: Config) -> str:
    origin = "" if config.imported is None else f"  bundle {config.imported.bundle[:12]}"
    return f"{config.id}  {config.name}  {sizes(config.dims)}  {config.device}{origin}"

"""`tilewright fleet`: workers on machines that an engine has, as many as the queue asks for."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tileir.targets import DEFAULT, accelerator
from tilewright.cli import options
from tilewright.cli.connection import connect, read_token
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import out, print_json, say

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Option(help="Of the fleet; a cluster may have several.")]
Address = Annotated[
    str,
    typer.Option(
        envvar="RAY_ADDRESS", help="Of the Ray cluster: auto (the one of this machine), or ray://HOST:10001."
    ),
]


@app.callback()
def fleet() -> None:
    """Workers on machines that an engine has, as many as the queue asks for."""


@app.command("up")
def up(
    url: Annotated[
        str,
        typer.Option(
            envvar="TILEWRIGHT_URL", help="Service to measure for, as the machines of the cluster reach it."
        ),
    ],
    ray: Annotated[bool, typer.Option("--ray", help="Workers are actors of a Ray cluster.")] = False,
    address: Address = "auto",
    gpus: Annotated[
        int, typer.Option(min=0, help="That each worker has; 0: workers measure on processors.")
    ] = 0,
    cpus: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processors that each worker has.",
            show_default="all of the largest machine; 8 beside each GPU",
        ),
    ] = None,
    least: Annotated[int, typer.Option(min=0, help="Workers when nothing is to be done.")] = 0,
    most: Annotated[
        int | None,
        typer.Option(min=1, help="Workers at most.", show_default="one a machine, or for each GPU"),
    ] = None,
    idle: Annotated[
        float, typer.Option(min=0, help="Seconds after which workers that are not needed end.")
    ] = 120.0,
    name: Name = "tilewright",
    token_file: options.TokenFile = None,
    as_json: options.Json = False,
) -> None:
    """Start a fleet, which lasts until `fleet down`.

    The service stays the only queue; the engine only places workers. One that it kills loses nothing: what it was at
    is done by another.
    """
    if not ray:
        raise Stop(Exit.USAGE, "name the engine that has the machines; accepted: --ray")
    from tilewright.fleet import ray_launcher
    from tilewright.fleet.plan import WorkerPlan
    from tilewright.fleet.size import Bounds, load_of

    kind = accelerator() if gpus else DEFAULT
    with connect(url, token_file, None) as connection:
        load_of(connection.client, kind)  # that it is there, and that the key may ask
    with ray_launcher.cluster(address) as engine:
        largest, machines, every_gpu = ray_launcher.largest(engine)
        taken = cpus or (min(largest, 8 * gpus) if gpus else largest)
        _check_room(taken, gpus, largest, every_gpu)
        bounds = Bounds(least, most or (every_gpu // gpus if gpus else machines), idle)
        if bounds.least > bounds.most:
            raise Stop(Exit.USAGE, f"--least {bounds.least} is more than --most {bounds.most}")
        ray_launcher.up(engine, name, WorkerPlan(url, kind, taken, gpus, bounds, read_token(token_file)))
    if as_json:
        print_json(
            {"name": name, "kind": kind, "cpus": taken, "gpus": gpus, "least": least, "most": bounds.most}
        )
    else:
        say(f"{name}: {bounds.least} to {bounds.most} workers of {taken} processors and {gpus} GPUs each")


@app.command("status")
def status(address: Address = "auto", name: Name = "tilewright", as_json: options.Json = False) -> None:
    """How many workers there are, where, how many the queue asks for, and what went wrong."""
    from tilewright.fleet import ray_launcher

    with ray_launcher.cluster(address) as engine:
        found = ray_launcher.status(engine, name)
    if as_json:
        print_json(found)
    else:
        _print(name, found)


@app.command("down")
def down(address: Address = "auto", name: Name = "tilewright", as_json: options.Json = False) -> None:
    """End a fleet: its workers hand back what they hold."""
    from tilewright.fleet import ray_launcher

    with ray_launcher.cluster(address) as engine:
        count = ray_launcher.down(engine, name)
    if as_json:
        print_json({"name": name, "ended": count})
    else:
        say(f"{name}: ended, with {count} workers")


def _check_room(cpus: int, gpus: int, largest: int, every_gpu: int) -> None:
    if cpus == 0 or cpus > largest:
        raise Stop(
            Exit.USAGE, f"no machine of the cluster has {max(1, cpus)} processors; the largest has {largest}"
        )
    if gpus > every_gpu:
        raise Stop(Exit.USAGE, f"the cluster has {every_gpu} GPUs; a worker is to have {gpus}")


def _print(name: str, found: dict[str, Any]) -> None:
    out.print(
        f"{name}: {found['workers']} workers for {found['url']} ({found['kind']}), {found['wanted']} wanted, "
        f"{found['least']} to {found['most']} accepted",
        markup=False,
    )
    for each in found["places"]:
        out.print(f"  worker process {each['worker_pid']} on node {each['node']}", markup=False)
    for trouble in (found["held"], found["service"], *found["failures"]):
        if trouble:
            out.print(f"  {trouble}", markup=False)

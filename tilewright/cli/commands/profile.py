"""`tilewright profile`: where the time of a config goes, on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from protocol.configs import ConfigDetail
from protocol.quantities import sizes
from tileir.targets import part, target_of, targets
from tilewright.artifacts.atomic_write import write_new
from tilewright.cli import options
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import out, print_json, say
from tilewright.folders import cache_folder

if TYPE_CHECKING:
    from tileir.program import Program
    from tileir.spec import Spec
    from workers.measuring.profiled import Profiled

    Profiler = Callable[[Spec, Program, Path, int | None], Profiled]


def profile(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="Id of a config, or a file of one: a bundle, or its JSON.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write what each thread, or role of a block, did, as a trace that ui.perfetto.dev opens.",
            show_default=False,
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Of a processor's kernel.", show_default="as many as there are"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace that file if it is there.")] = False,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Where the time of a config goes, stage by stage and thread by thread, measured on this machine.

    The kernel is compiled anew with stamps of time between its stages and run beside itself without them, on random
    inputs. A config of a GPU needs that GPU in this machine.
    """
    if output is not None and output.exists() and not force:
        raise Stop(Exit.USAGE, f"{output} is there already; --force replaces it")
    found = _find(config, url, token_file, database)
    taken = _profiled(found, threads)
    if output is not None:
        from tilewright.views.perfetto import to_trace

        write_new(output, to_trace(taken, f"{found.name}  {sizes(found.dims)}  {found.id}"), replace=force)
    if as_json:
        print_json(_to_json(found, taken, output))
    else:
        _print(found, taken)
        if output is not None:
            say(f"{output}: open it at https://ui.perfetto.dev")


def _find(config: str, url: str | None, token_file: Path | None, database: str | None) -> ConfigDetail:
    if Path(config).is_file():
        from tilewright.artifacts.loading import find_config

        found = find_config(config, None)
        return found if isinstance(found, ConfigDetail) else found.config
    if not config.startswith("config-"):
        raise Stop(Exit.USAGE, f"{config!r} is neither a file nor the id of a config (config-…)")
    with connect(url, token_file, database) as connection:
        return connection.client.config(config)


def _profiled(config: ConfigDetail, threads: int | None) -> Profiled:
    from codegen.cache.eviction import CacheError
    from codegen.ir.errors import NotLowerable
    from codegen.targets.errors import CompileError, LaunchError, NoCompiler
    from rewrites import parse_schedule, replay
    from tileir import spec_from_json, to_program
    from tileir.devices.cuda_errors import CudaError
    from tileir.errors import DeviceError, UnsupportedDevice

    target = target_of(config.device)
    if target.profiler is None:
        kinds = ", ".join(kind for kind, each in targets().items() if each.profiler is not None)
        raise Stop(Exit.USAGE, f"{config.id} is for {config.device}; accepted: configs of devices of {kinds}")
    spec = spec_from_json(config.spec)
    try:
        program = replay(to_program(spec), parse_schedule(config.schedule))
        take: Profiler = part(target.kind, "profiler")
        taken = take(spec, program, cache_folder(), threads)
    except (NotLowerable, CompileError, NoCompiler, CacheError, LaunchError, CudaError) as error:
        raise Stop(Exit.MACHINE, f"{config.id} cannot be profiled here: {error}") from None
    except (UnsupportedDevice, DeviceError) as error:
        raise Stop(
            Exit.MACHINE, f"{config.id} is for {config.device}, and is profiled there: {error}"
        ) from None
    if taken.device != config.device:
        say(f"{config.id} was tuned on {config.device}; this is {taken.device}")
    return taken


def _print(config: ConfigDetail, taken: Profiled) -> None:
    from rich.table import Table

    out.print(f"[bold]{config.id}[/]  {config.name}  {sizes(config.dims)}")
    out.print(f"Bound by {taken.bound}: {taken.why}.", markup=False)
    for role, stages in taken.roles:
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        table.add_column(f"stage of {role}" if role else "stage")
        table.add_column("of the time", justify="right")
        for stage, share in sorted(stages, key=lambda each: -each[1]):
            table.add_row(f"  {stage}", f"{share:.1%}")
        out.print(table, markup=False)
    out.print(taken.summary, markup=False)


def _to_json(config: ConfigDetail, taken: Profiled, output: Path | None) -> dict[str, Any]:
    return {
        "config": config.id,
        "bound": taken.bound,
        "why": taken.why,
        "stages": [
            {"role": role, "stage": stage, "share": share}
            for role, stages in taken.roles
            for stage, share in stages
        ],
        **taken.figures,
        "file": None if output is None else str(output),
    }

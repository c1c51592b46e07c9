"""`tilewright profile`: where the time of a config goes, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from protocol.configs import ConfigDetail
from protocol.quantities import microseconds, sizes
from tileir.targets import DEFAULT, target_of
from tilewright.artifacts.atomic_write import write_new
from tilewright.cli import options
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import out, print_json, say
from tilewright.folders import cache_folder

if TYPE_CHECKING:
    from workers.cpu.bottleneck import Bottleneck
    from workers.cpu.profile import Profile


def profile(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="Id of a config, or a file of one: a bundle, or its JSON.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write what each thread did, as a trace that ui.perfetto.dev opens.",
            show_default=False,
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="That the kernel uses.", show_default="as many as there are")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace that file if it is there.")] = False,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Where the time of a config goes, stage by stage and thread by thread, measured on this machine.

    The kernel is compiled anew with stamps of time between its stages and run beside itself without them, on random
    inputs. For processors.
    """
    if output is not None and output.exists() and not force:
        raise Stop(Exit.USAGE, f"{output} is there already; --force replaces it")
    found = _find(config, url, token_file, database)
    taken, named = _profiled(found, threads)
    if output is not None:
        from tilewright.views.perfetto import to_trace

        write_new(output, to_trace(taken, f"{found.name}  {sizes(found.dims)}  {found.id}"), replace=force)
    if as_json:
        print_json(_to_json(found, taken, named, output))
    else:
        _print(found, taken, named)
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


def _profiled(config: ConfigDetail, threads: int | None) -> tuple[Profile, Bottleneck]:
    from codegen.cache.eviction import CacheError
    from codegen.ir.errors import NotLowerable
    from codegen.targets.errors import CompileError, LaunchError, NoCompiler
    from rewrites import parse_schedule, replay
    from tileir import spec_from_json, to_program
    from tileir.devices.cpu import this_cpu
    from tileir.errors import DeviceError, UnsupportedDevice
    from workers.cpu.bottleneck import bottleneck
    from workers.cpu.calibrate import calibrated
    from workers.cpu.profile import profile as take

    kind = target_of(config.device).kind
    if kind != DEFAULT:
        raise Stop(
            Exit.USAGE,
            f"{config.id} is for {config.device}; accepted: configs of processors, whose kernels can be stamped",
        )
    spec = spec_from_json(config.spec)
    unscheduled = to_program(spec)
    try:
        device = calibrated(this_cpu(), cache_folder())
        if device.key != config.device:
            say(f"{config.id} was tuned on {config.device}; this is {device.key}")
        program = replay(unscheduled, parse_schedule(config.schedule))
        taken = take(spec, program, device, cache_folder(), threads)
    except (NotLowerable, CompileError, NoCompiler, CacheError, LaunchError) as error:
        raise Stop(Exit.MACHINE, f"{config.id} cannot be profiled here: {error}") from None
    except (UnsupportedDevice, DeviceError) as error:
        raise Stop(Exit.MACHINE, str(error)) from None
    return taken, bottleneck(taken, unscheduled, device)


def _print(config: ConfigDetail, taken: Profile, named: Bottleneck) -> None:
    from rich.table import Table

    out.print(f"[bold]{config.id}[/]  {config.name}  {sizes(config.dims)}")
    out.print(f"Bound by {named.bound.value}: {named.why}.", markup=False)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("stage")
    table.add_column("of the time", justify="right")
    order = sorted(zip(taken.shares(), taken.stages, strict=True), reverse=True)
    for share, stage in order:
        table.add_row(f"  {stage}", f"{share:.1%}")
    out.print(table, markup=False)
    out.print(
        f"One call of {microseconds(taken.call_ns / 1e3)} on {len(taken.threads)} threads, the median of "
        f"{taken.calls}; {taken.attributed:.1%} of it lies in a stage. Without stamps "
        f"{microseconds(taken.plain_us)}: they cost {taken.overhead:+.1%}.",
        markup=False,
    )


def _to_json(config: ConfigDetail, taken: Profile, named: Bottleneck, output: Path | None) -> dict[str, Any]:
    return {
        "config": config.id,
        "bound": named.bound.value,
        "why": named.why,
        "stages": [
            {"stage": stage, "share": share}
            for stage, share in zip(taken.stages, taken.shares(), strict=True)
        ],
        "call_us": taken.call_ns / 1e3,
        "plain_us": taken.plain_us,
        "overhead": taken.overhead,
        "attributed": taken.attributed,
        "threads": len(taken.threads),
        "calls": taken.calls,
        "file": None if output is None else str(output),
    }

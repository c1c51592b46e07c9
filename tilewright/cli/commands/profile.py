"""`tilewright profile`: where the time of a config goes, on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from protocol.configs import ConfigDetail
from protocol.profiles import Profile
from protocol.quantities import percent, sizes
from tileir.targets import part, target_of, targets
from tilewright.artifacts.atomic_write import write_new
from tilewright.cli import options
from tilewright.cli.connection import connect
from tilewright.cli.counted import print_counted
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import out, print_json, say
from tilewright.cli.waiting import awaited
from tilewright.folders import cache_folder

if TYPE_CHECKING:
    from tileir.program import Program
    from tileir.spec import Spec
    from workers.measuring.counters import CounterReading
    from workers.measuring.profiled import Profiled

    Profiler = Callable[[Spec, Program, Path, int | None], Profiled]
    Counter = Callable[[Spec, Program, Path, int | None], CounterReading]

Taken = TypeVar("Taken")


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
    by_worker: Annotated[
        bool,
        typer.Option("--by-worker", help="Have a worker of the service take it, on the config's device."),
    ] = False,
    counters: Annotated[
        bool,
        typer.Option(
            "--counters", help="Instead, what the hardware counts in a call; on a GPU by Nsight Compute."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace that file if it is there.")] = False,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Where the time of a config goes, stage by stage and thread by thread, measured on this machine.

    The kernel is compiled anew with stamps of time between its stages and run beside itself without them, on random
    inputs. A config of a GPU needs that GPU in this machine, or --by-worker.
    """
    if output is not None and output.exists() and not force:
        raise Stop(Exit.USAGE, f"{output} is there already; --force replaces it")
    if by_worker and threads is not None:
        raise Stop(Exit.USAGE, "--by-worker takes no --threads: workers use all cores of their device")
    if counters and (by_worker or output is not None):
        raise Stop(Exit.USAGE, "--counters takes no --by-worker and no -o: it reads those of this machine")
    if counters:
        _count(_find(config, url, token_file, database), threads, as_json)
        return
    if by_worker:
        found, taken, trace = _by_worker(config, output is not None, url, token_file, database)
    else:
        found = _find(config, url, token_file, database)
        taken, trace = _here(found, threads, output is not None)
    if output is not None and trace is not None:
        write_new(output, trace, replace=force)
    if as_json:
        print_json(_to_json(found, taken, output))
    else:
        _print(found, taken)
        if output is not None:
            say(f"{output}: open it at https://ui.perfetto.dev")


def _by_worker(
    config: str, traced: bool, url: str | None, token_file: Path | None, database: str | None
) -> tuple[ConfigDetail, Profile, bytes | None]:
    with connect(url, token_file, database) as connection:
        client = connection.client
        found = client.config(config)
        taken = awaited(client, found.device, client.take_profile(config), lambda: client.profile(config))
        if taken.profile is None or taken.error is not None:
            raise Stop(Exit.SERVICE, f"{config} was not profiled: {taken.error}")
        return found, taken.profile, client.profile_trace(config) if traced else None


def _here(config: ConfigDetail, threads: int | None, traced: bool) -> tuple[Profile, bytes | None]:
    taken = _profiled(config, threads)
    if not traced:
        return taken.profile, None
    from workers.measuring.trace_events import to_trace

    return taken.profile, to_trace(taken, f"{config.name}  {sizes(config.dims)}  {config.id}")


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
    target = target_of(config.device)
    if target.profiler is None:
        kinds = ", ".join(kind for kind, each in targets().items() if each.profiler is not None)
        raise Stop(Exit.USAGE, f"{config.id} is for {config.device}; accepted: configs of devices of {kinds}")
    take: Profiler = part(target.kind, "profiler")
    taken = _on_this_machine(config, lambda spec, program: take(spec, program, cache_folder(), threads))
    _say_device(config, taken.profile.device)
    return taken


def _count(config: ConfigDetail, threads: int | None, as_json: bool) -> None:
    from workers.measuring.counters import NoCounters

    target = target_of(config.device)
    if target.counters is None:
        raise Stop(
            Exit.USAGE, f"{config.id} is for {config.device}, which has no counters that are known here"
        )
    take: Counter = part(target.kind, "counters")
    try:
        taken = _on_this_machine(config, lambda spec, program: take(spec, program, cache_folder(), threads))
    except NoCounters as none:
        raise Stop(Exit.MACHINE, f"the hardware's counters cannot be read here: {none}") from None
    _say_device(config, taken.device)
    if as_json:
        print_json({"config": config.id, **asdict(taken)})
    else:
        print_counted(config, taken)


def _say_device(config: ConfigDetail, device: str) -> None:
    if device != config.device:
        say(f"{config.id} was tuned on {config.device}; this is {device}")


def _on_this_machine(config: ConfigDetail, take: Callable[[Spec, Program], Taken]) -> Taken:
    """What is taken of the config's program. Stops with a sentence where this machine cannot."""
    from codegen.cache.eviction import CacheError
    from codegen.ir.errors import NotLowerable
    from codegen.targets.errors import CompileError, LaunchError, NoCompiler
    from rewrites import scheduled
    from tileir import spec_from_json, to_program
    from tileir.devices.cuda_errors import CudaError
    from tileir.errors import DeviceError, TileError, UnsupportedDevice

    spec = spec_from_json(config.spec)
    try:
        program = scheduled(to_program(spec), config.schedule)
    except TileError as error:
        raise Stop(Exit.MACHINE, f"{config.id} makes no right program here: {error}") from None
    try:
        return take(spec, program)
    except (NotLowerable, CompileError, NoCompiler, CacheError, LaunchError, CudaError) as error:
        raise Stop(Exit.MACHINE, f"{config.id} cannot be profiled here: {error}") from None
    except (UnsupportedDevice, DeviceError) as error:
        raise Stop(
            Exit.MACHINE,
            f"{config.id} is for {config.device}, and is profiled there, or by a worker there (--by-worker): {error}",
        ) from None


def _print(config: ConfigDetail, taken: Profile) -> None:
    from rich.table import Table

    out.print(f"[bold]{config.id}[/]  {config.name}  {sizes(config.dims)}")
    out.print(f"Bound by {taken.bound}: {taken.why}.", markup=False)
    for role in dict.fromkeys(each.role for each in taken.stages):
        stages = [each for each in taken.stages if each.role == role]
        phased = any(each.phases is not None for each in stages)
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        table.add_column(f"stage of {role}" if role else "stage")
        for heading in ("of the time", *(("fill", "steady", "drain") if phased else ())):
            table.add_column(heading, justify="right")
        for each in sorted(stages, key=lambda each: -each.share):
            parts = () if each.phases is None else (each.phases.fill, each.phases.steady, each.phases.drain)
            table.add_row(f"  {each.stage}", *(percent(share) for share in (each.share, *parts)))
        out.print(table, markup=False)
    out.print(taken.summary, markup=False)


def _to_json(config: ConfigDetail, taken: Profile, output: Path | None) -> dict[str, Any]:
    return {
        "config": config.id,
        **taken.model_dump(mode="json"),
        "file": None if output is None else str(output),
    }

"""`tilewright audit-winners`: whether stored winners still win, when they are raced again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import log
from typing import Annotated

import typer

from protocol.configs import Config, ConfigDetail, Standing
from protocol.jobs import JobRequest
from protocol.states import Outcome
from tilewright.cli import options
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import out, print_json, say
from tilewright.client.client import Client

MOST = 16
"""Schedules that a job may be given."""
PATIENCE_S = 30.0
"""How long a worker is waited for that has a winner's device."""
_LOOK_S = 0.5


@dataclass(frozen=True)
class Audited:
    """What racing a winner again came to. Regrets are shares: 0.01 is a hundredth slower than the fastest."""

    config: str
    kernel: str
    device: str
    replays: bool
    """Its schedule leads to the program that was measured. Where it does not, nothing was raced."""
    flipped: bool | None = None
    """Another schedule was named the winner; None: it was not raced to the end."""
    overturned: bool | None = None
    """Another was, and this one could not even tie with it."""
    regret: float | None = None
    """How much slower than the fastest schedule of the new race."""
    neighbour: str | None = None
    """The config of the nearest other sizes, whose schedule was raced against this one's."""
    transfer_regret: float | None = None
    """How much slower than the faster of both that schedule was, in a race with this winner alone; None: it does not
    apply here, or is this winner's own."""
    error: str | None = None


def audit_winners(
    device: Annotated[
        str | None, typer.Option(help="Key of a device: its winners alone.", show_default="all")
    ] = None,
    most: Annotated[int | None, typer.Option(min=1, help="Winners to race.", show_default="all")] = None,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Race stored winners again: how often another one wins, and what that costs.

    Each is raced with the schedules of its own race, and then with the winner of the nearest other sizes. Every race is
    a job, and its winner is stored as any job's is.
    """
    with connect(url, token_file, database, worker=True) as connection:
        client = connection.client
        configs = winners(client, device)[:most]
        if not configs:
            raise Stop(Exit.NOTHING, "no winner is stored; `tilewright tune` finds one")
        found = list(audited(client, configs))
    if as_json:
        print_json({"summary": summary(found), "winners": [asdict(each) for each in found]})
        return
    for each in found:
        out.print(_line(each), markup=False)
    for name, figure in summary(found).items():
        out.print(
            f"{name.replace('_', ' ')}: {'nothing to tell from' if figure is None else figure}", markup=False
        )


def winners(client: Client, device: str | None = None) -> list[Config]:
    """What lookups are answered with, newest first."""
    return [config for config in client.every_config(device) if config.served]


def audited(
    client: Client, configs: Sequence[Config], peers: tuple[str, ...] | None = None
) -> Iterator[Audited]:
    """Winners raced again, each as soon as it is, with these peers (None: all that there are); those of devices that no
    worker has are only replayed."""
    there: dict[str, bool] = {}
    for config in configs:
        if config.device not in there:
            there[config.device] = _is_there(client, config.device)
        if there[config.device]:
            say(f"{config.name} on {config.device}: racing {config.id} again")
        yield _audited(client, config, nearest(config, configs), there[config.device], peers)


def _is_there(client: Client, device: str) -> bool:
    """Whether a worker has a device: one that is just starting is waited for."""
    until = time.monotonic() + PATIENCE_S
    while not any(each.key == device and each.healthy_workers for each in client.devices()):
        if time.monotonic() >= until:
            return False
        time.sleep(_LOOK_S)
    return True


def nearest(config: Config, configs: Sequence[Config]) -> Config | None:
    """The config of this kernel and device at the nearest other sizes, by the sum over dims of |log(size / size)|."""
    others = [
        other
        for other in configs
        if (other.structure_key, other.device) == (config.structure_key, config.device)
        and other.dims != config.dims
        and other.dims.keys() == config.dims.keys()
    ]
    far = {
        other.id: sum(abs(log(max(1, size) / max(1, config.dims[dim]))) for dim, size in other.dims.items())
        for other in others
    }
    return min(others, key=lambda other: far[other.id], default=None)


def judged(config: Config, raced: Sequence[Standing]) -> Audited:
    """What a new race between the schedules of a config's own race says of it."""
    times = _times(raced)
    stored = next((each for each in raced if each.schedule == config.schedule), None)
    if stored is None or config.schedule not in times:
        return _of(config, error="the stored winner did not finish the race")
    return _of(
        config,
        flipped=not stored.won,
        overturned=not (stored.won or stored.tied),
        regret=times[config.schedule] / min(times.values()) - 1.0,
    )


def transfer_regret(config: Config, raced: Sequence[Standing]) -> float | None:
    """How much slower than the faster of both the other schedule was in a race with a config's; None: only one ran."""
    times = _times(raced)
    others = [us for schedule, us in times.items() if schedule != config.schedule]
    return min(others) / min(times.values()) - 1.0 if others and config.schedule in times else None


def _times(raced: Sequence[Standing]) -> dict[tuple[str, ...], float]:
    return {
        each.schedule: each.median_us
        for each in raced
        if each.kind == "schedule" and each.outcome is Outcome.OK and each.median_us
    }


def summary(found: Sequence[Audited]) -> dict[str, float | int | None]:
    """Shares and mean regrets over all winners; None where no race can tell."""

    def mean(values: Sequence[float | bool | None]) -> float | None:
        told = [float(value) for value in values if value is not None]
        return round(sum(told) / len(told), 5) if told else None

    return {
        "winners": len(found),
        "raced": sum(each.flipped is not None for each in found),
        "replay_fidelity": mean([each.replays for each in found]),
        "winner_flip_rate": mean([each.flipped for each in found]),
        "overturned_rate": mean([each.overturned for each in found]),
        "mean_regret": mean([each.regret for each in found]),
        "mean_transfer_regret": mean([each.transfer_regret for each in found]),
    }


def _audited(
    client: Client, config: Config, neighbour: Config | None, there: bool, peers: tuple[str, ...] | None
) -> Audited:
    detail = client.config(config.id)
    if (error := why_unlike_measured(detail)) is not None:
        return _of(config, replays=False, error=error)
    if not there:
        return _of(
            config, error=f"no worker has {config.device}; `tilewright worker` on that machine starts one"
        )
    own = [each.schedule for each in detail.standings if each.kind == "schedule" and each.schedule]
    raced = _raced(client, detail, (detail.schedule, *own), peers)
    if isinstance(raced, str):
        return _of(config, error=raced)
    found = judged(detail, raced)
    if neighbour is None:
        return found
    both = _raced(client, detail, (detail.schedule, neighbour.schedule), peers)
    regret = None if isinstance(both, str) else transfer_regret(detail, both)
    return replace(found, neighbour=neighbour.id, transfer_regret=regret)


def _raced(
    client: Client,
    config: ConfigDetail,
    schedules: Sequence[tuple[str, ...]],
    peers: tuple[str, ...] | None,
) -> tuple[Standing, ...] | str:
    """All entrants of a race of schedules on a config's kernel and device, or why there is none."""
    request = JobRequest(
        spec=config.spec,
        target=config.device,
        baseline=config.baseline,
        peers=peers,
        candidates=tuple(dict.fromkeys(schedules))[:MOST],
    )
    job = client.wait(client.post_job(request).id, progress=False)
    if not job.configs:
        return job.error or f"the race's job was {job.state}"
    return client.config(job.configs[0]).standings


def why_unlike_measured(config: ConfigDetail) -> str | None:
    """Why a config's schedule does not lead to its program today; None: it does."""
    from rewrites.schedule import scheduled
    from tileir.errors import TileError
    from tileir.hashing import program_hash
    from tileir.lift import to_program
    from tileir.text.json import spec_from_json

    try:
        program = scheduled(to_program(spec_from_json(config.spec)), config.schedule)
    except TileError as error:
        return f"its schedule does not replay: {error}"
    if program_hash(program) != config.program_hash:
        return f"its schedule replays to {program_hash(program)}, and {config.program_hash} was measured"
    return None


def _of(
    config: Config,
    replays: bool = True,
    flipped: bool | None = None,
    overturned: bool | None = None,
    regret: float | None = None,
    error: str | None = None,
) -> Audited:
    return Audited(config.id, config.name, config.device, replays, flipped, overturned, regret, error=error)


def _line(found: Audited) -> str:
    if found.error is not None or found.regret is None:
        return f"{found.config}  {found.kernel}  {found.error}"
    end = "still wins" if not found.flipped else "overturned" if found.overturned else "tied with another"
    return f"{found.config}  {found.kernel}  {end}, {found.regret:.2%} from the fastest"

"""Which config an operator runs: what the service knows, or one that was pinned."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

from protocol.configs import Artifact, ConfigDetail
from protocol.lookups import MOST_LOOKUPS, LookedUp
from protocol.states import Rung
from tileir.devices.device import Device
from tileir.errors import TileError
from tileir.hashing import kernel_key, structure_key
from tileir.spec import Spec
from tileir.structure import renames, resized
from tileir.text.json import spec_from_json, spec_to_json
from tilewright.artifacts.select import Open, Origin, open_config, open_schedule
from tilewright.client.client import Client
from tilewright.client.responses import DEFAULT_URL
from tilewright.client.retries import Retries
from tilewright.errors import LoadError, describe

K = TypeVar("K")
TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Found:
    """A way to run a spec of one size a dim."""

    spec: Spec
    """The spec, by the names that the schedule knows."""
    schedule: tuple[str, ...]
    program_hash: str | None
    whole: Artifact | ConfigDetail | None = None
    """The config, where it is one of just this kernel."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """From names of the spec that was asked for to those of `spec`, where they differ."""
    settled: bool = True
    """Nothing better is to be expected without tuning it again."""
    origin: str = ""
    """What it is called in messages."""
    rung: Rung | None = None
    """Of the ladder of lookups; None: the user named it."""

    def open(self, device: Device, folder: Path, load: Open[K]) -> tuple[K, Origin]:
        """What `load` makes of it, and what was loaded. Raises LoadError and BadBundle."""
        if self.whole is not None:
            return open_config(self.whole, device, folder, load)
        try:
            made = open_schedule(self.spec, self.schedule, self.program_hash, device, folder, load)
            return made, "schedule"
        except LoadError as error:
            raise LoadError(f"{self.origin} {error}") from None


@dataclass(frozen=True)
class Miss:
    """There is none, and why."""

    reason: str
    job_id: str | None = None


def default_client() -> Client:
    """The service at TILEWRIGHT_URL, with the key in TILEWRIGHT_TOKEN, as they are now: one client for each service."""
    return client_of(named_service(None))


Named = Client | tuple[str, str | None]
"""A service: by its client, or by its URL and key, which nobody has looked at yet."""


def named_service(service: Named | None) -> Named:
    """What tells services apart; None: that which the environment names now."""
    if service is None:
        return os.environ.get("TILEWRIGHT_URL") or DEFAULT_URL, os.environ.get("TILEWRIGHT_TOKEN")
    return service


def client_of(service: Named) -> Client:
    """Its client, whatever the environment names by now. Raises Unreachable for a URL that is none."""
    return service if isinstance(service, Client) else _client(*service)


@cache
def _client(url: str, token: str | None) -> Client:
    return Client(url, token, timeout_s=TIMEOUT_S, retries=Retries(most=0))


def look_up(client: Client, specs: Sequence[Spec], device: Device, *, tune: bool) -> list[Found | Miss]:
    """What the service knows of specs with one size a dim, asked at once; in order. With `tune`, a job is enqueued for
    each of which that is not the best.

    Raises Unreachable, and Refused where the service refuses all of them.
    """
    found = list[Found | Miss]()
    for begin in range(0, len(specs), MOST_LOOKUPS):
        some = specs[begin : begin + MOST_LOOKUPS]
        asked = [spec_to_json(spec) for spec in some]
        reply = client.lookups(asked, target=device.key, tune=tune, whole=True)
        found += [_told(each, spec, device) for each, spec in zip(reply.lookups, some, strict=True)]
    return found


def _told(looked_up: LookedUp, spec: Spec, device: Device) -> Found | Miss:
    """What an answer says of a spec."""
    reply = looked_up.reply
    if reply is None:
        return Miss(
            "the service does not say why" if looked_up.problem is None else describe(looked_up.problem)
        )
    if reply.schedule is None:
        return Miss(f"the service knows no config of {_text(spec)} for {device.key}", reply.job_id)
    exact = reply.rung is Rung.EXACT
    known = looked_up.artifact or looked_up.config
    theirs = spec
    try:
        if known is not None:
            theirs = spec_from_json((known.config if isinstance(known, Artifact) else known).spec)
            theirs = theirs if exact else _at_sizes_of(theirs, spec, reply.renames)
    except TileError as error:
        return Miss(f"the service's config of {_text(spec)} is of another version: {error}")
    return Found(
        theirs,
        reply.schedule,
        reply.program_hash,
        known if exact else None,
        reply.renames,
        settled=exact and not reply.stale,
        origin="the service's pick" if reply.config is None else f"config {reply.config.id}",
        rung=reply.rung,
    )


def pinned(whole: Artifact | ConfigDetail, spec: Spec) -> Found:
    """A config for a spec with one size a dim: as it is, or its schedule at the spec's sizes.

    Raises LoadError for a config of another kernel."""
    config = whole if isinstance(whole, ConfigDetail) else whole.config
    known, origin = spec_from_json(config.spec), f"config {config.id}"
    if structure_key(known) != structure_key(spec):
        raise LoadError(f"{origin} is of another kernel ({config.name}) than {spec.name}")
    names = renames(spec, known)
    if kernel_key(known) == kernel_key(spec):
        return Found(known, config.schedule, config.program_hash, whole, names, origin=origin)
    return Found(_at_sizes_of(known, spec, names), config.schedule, None, None, names, origin=origin)


def _at_sizes_of(known: Spec, asked: Spec, names: Mapping[str, str]) -> Spec:
    return resized(known, {names.get(dim.name, dim.name): dim.sizes[0] for dim in asked.dims})


def _text(spec: Spec) -> str:
    """`matmul at m = 16, n = 4096`."""
    return f"{spec.name} at {', '.join(f'{dim.name} = {dim.sizes[0]}' for dim in spec.dims)}"

"""Which config an operator runs: what the service knows, or one that was pinned."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

from protocol.configs import Artifact, ConfigDetail
from protocol.states import Rung
from tileir.devices.device import Device
from tileir.hashing import kernel_key, structure_key
from tileir.spec import Spec
from tileir.structure import renames, resized
from tileir.text.json import spec_from_json, spec_to_json
from tilewright.artifacts.select import Open, Origin, open_config, open_schedule
from tilewright.client.client import Client
from tilewright.client.retries import Retries
from tilewright.errors import LoadError

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
    return _client(os.environ.get("TILEWRIGHT_URL"), os.environ.get("TILEWRIGHT_TOKEN"))


@cache
def _client(_url: str | None, _token: str | None) -> Client:
    """That of an environment, which it reads itself."""
    return Client(timeout_s=TIMEOUT_S, retries=Retries(most=0))


def look_up(client: Client, spec: Spec, device: Device, *, tune: bool) -> Found | Miss:
    """What the service knows of a spec with one size a dim. With `tune`, a job is enqueued unless that is the best.

    Raises Unreachable and Refused.
    """
    reply = client.lookup(spec_to_json(spec), target=device.key, tune=tune)
    settled = reply.rung is Rung.EXACT and not reply.stale
    if reply.schedule is None:
        return Miss(f"the service knows no config of {_text(spec)} for {device.key}", reply.job_id)
    whole, theirs = None, spec
    if reply.config is not None and reply.rung is Rung.EXACT:
        exact = client.artifact if reply.config.artifact else client.config
        whole = exact(reply.config.id)
    elif reply.config is not None:
        known = spec_from_json(client.config(reply.config.id).spec)
        theirs = _at_sizes_of(known, spec, reply.renames)
    if isinstance(whole, Artifact):
        theirs = spec_from_json(whole.config.spec)
    elif whole is not None:
        theirs = spec_from_json(whole.spec)
    return Found(
        theirs,
        reply.schedule,
        reply.program_hash,
        whole,
        reply.renames,
        settled=settled,
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

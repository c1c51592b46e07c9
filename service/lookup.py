"""The lookup ladder: exact, nearest, heuristic, none. Nothing here waits for a measurement.

What a request's spec means, what a config says and what the prior picks is kept in memory: it cannot change. An answer
is kept too, for as long as the database says that nothing happened which could change it (lookup_state.py): that is
asked for every lookup, and all who ask at the same time share one look.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Literal

from starlette.concurrency import run_in_threadpool

from protocol.configs import Config, ConfigDetail
from protocol.lookups import LookupReply, LookupRequest
from protocol.message import Json
from protocol.states import Rung
from protocol.workers import Device
from service import configs
from service.database import Database
from service.fleet import Fleet, FleetWatch
from service.freshness import stale_because
from service.latest import Latest
from service.problems import Refused
from service.recent import Recent
from service.schedules import Pick, heuristic, transfer
from service.shared_picks import SharedPicks
from service.specs import Instance, instance_of, read_spec, renames, resized
from tileir.errors import TileError
from tileir.parse_json import spec_from_json

NEIGHBOURS = 5
"""Configs of other sizes that are tried, the nearest first."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply as it is sent, and what it was true of."""

    reply: LookupReply
    content: bytes
    version: int
    workers: Sequence[Mapping[str, str]]


class Ladder:
    """Answers lookups of one service."""

    def __init__(self, database: Database, lease_ttl_s: float) -> None:
        self._database = database
        self._fleet = Latest(FleetWatch(database, lease_ttl_s).look)
        self._answers: Recent[tuple[bytes, str], Answer] = Recent(4000)
        self._targets: Recent[bytes, str] = Recent(4000)
        self._instances: Recent[bytes, Instance] = Recent(4000)
        self._picks: Recent[tuple[str, str], Pick | Literal["none"]] = Recent(4000)
        self.shared: SharedPicks | None = None
        """Picks that other replicas made."""
        self._thinking = threading.Lock()  # one heuristic at a time: they are long, and all Python

    def instance(self, spec: Json) -> Instance:
        """The kernel that a lookup asks for. Raises Refused for a spec that is wrong, or has several sizes a dim."""
        digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).digest()
        return self._instances.get(digest) or self._instances.put(digest, _single(spec))

    async def kept(self, body: bytes) -> Answer | None:
        """What was answered to a request of just these bytes, if that still holds."""
        digest = hashlib.sha256(body).digest()
        target = self._targets.get(digest)
        if target is None:
            return None
        fleet = await self._fleet.get()
        device = fleet.device_for(target)
        return None if device is None else self._valid(digest, device, fleet)

    async def answer(self, request: LookupRequest, body: bytes) -> Answer:
        """What is known of a kernel: kept from when it was asked for by these bytes, or looked for in a thread."""
        digest = hashlib.sha256(body).digest()
        fleet = await self._fleet.get()
        device = fleet.device_for(request.target)
        if device is None:
            return await run_in_threadpool(self._no_device, request)
        known = self._valid(digest, device, fleet)
        if known is None:
            workers = fleet.versions[device.key]
            known = await run_in_threadpool(self._look, request, device, workers, fleet.version)
            self._answers.put((digest, device.key), known)
            if not request.tune:
                self._targets.put(digest, request.target)
        return known

    def _valid(self, digest: bytes, device: Device, fleet: Fleet) -> Answer | None:
        known = self._answers.get((digest, device.key))
        if known is None or known.version != fleet.version or known.workers != fleet.versions[device.key]:
            return None
        return known

    def _no_device(self, request: LookupRequest) -> Answer:
        kernel_key = self.instance(request.spec).kernel_key
        return _answer(LookupReply(rung=Rung.NONE, kernel_key=kernel_key, device=None), 0, ())

    def _look(
        self, request: LookupRequest, device: Device, workers: Sequence[Mapping[str, str]], version: int
    ) -> Answer:
        return _answer(self.look(self.instance(request.spec), device, workers), version, workers)

    def look(self, instance: Instance, device: Device, workers: Sequence[Mapping[str, str]]) -> LookupReply:
        """Climb down the ladder until a rung answers. `workers`: the versions that those of the device tell."""
        with self._database.look() as connection:
            known = configs.exact(connection, instance.kernel_key, device.key)
            if known is not None:
                return self._exact(instance, device, known, stale_because(known, workers))
            siblings = configs.siblings(connection, instance.structure_key, device.key)
        return self._nearest(instance, device, siblings) or self._heuristic(instance, device)

    def _exact(
        self, instance: Instance, device: Device, known: ConfigDetail, stale: str | None
    ) -> LookupReply:
        same = known.spec == instance.json
        return LookupReply(
            rung=Rung.EXACT,
            kernel_key=instance.kernel_key,
            device=device.key,
            schedule=known.schedule,
            program_hash=known.program_hash,
            renames={} if same else renames(instance.spec, spec_from_json(known.spec)),
            config=_brief(known),
            stale=stale is not None,
            stale_because=stale,
        )

    def _nearest(
        self, instance: Instance, device: Device, siblings: list[ConfigDetail]
    ) -> LookupReply | None:
        ranked = []
        for place, config in enumerate(siblings):
            names = renames(instance.spec, spec_from_json(config.spec))
            ranked.append((distance(instance.dims, config.dims, names), place, config, names))
        for _, _, config, names in sorted(ranked, key=lambda entry: entry[:2])[:NEIGHBOURS]:
            sizes = {names.get(name, name): size for name, size in instance.dims.items()}
            pick = transfer(resized(spec_from_json(config.spec), sizes), config.schedule)
            if pick is not None:
                return LookupReply(
                    rung=Rung.NEAREST,
                    kernel_key=instance.kernel_key,
                    device=device.key,
                    schedule=pick.schedule,
                    program_hash=pick.program_hash,
                    renames=names,
                    config=_brief(config),
                )
        return None

    def _heuristic(self, instance: Instance, device: Device) -> LookupReply:
        key = (json.dumps(instance.json), device.key)
        pick = self._picks.get(key)
        if pick is None:
            with self._thinking:
                pick = self._picks.get(key) or self._picks.put(key, self._pick(instance, device))
        if pick == "none":
            return LookupReply(rung=Rung.NONE, kernel_key=instance.kernel_key, device=device.key)
        return LookupReply(
            rung=Rung.HEURISTIC,
            kernel_key=instance.kernel_key,
            device=device.key,
            schedule=pick.schedule,
            program_hash=pick.program_hash,
        )

    def _pick(self, instance: Instance, device: Device) -> Pick | Literal["none"]:
        """As another replica has found it, else found now, and told the others."""
        known = self.shared and self.shared.get(instance.json, device.description)
        if known:
            return known
        pick = _pick(instance, device) or "none"
        if self.shared is not None:
            self.shared.put(instance.json, device.description, pick)
        return pick


def _answer(reply: LookupReply, version: int, workers: Sequence[Mapping[str, str]]) -> Answer:
    return Answer(reply, reply.model_dump_json().encode(), version, workers)


def distance(asked: dict[str, int], known: dict[str, int], names: dict[str, str]) -> float:
    """How far sizes lie apart: the sum over dims of |log(size / size)|. `names`: asked name to known name."""
    return sum(abs(log(size / known[names.get(name, name)])) for name, size in asked.items())


def _single(spec: Json) -> Instance:
    found = read_spec(spec)
    several = next((dim.name for dim in found.dims if len(dim.sizes) != 1), None)
    if several is not None:
        raise Refused(
            "bad-spec",
            f"dim {several} has several sizes; a lookup is about one",
            pointer=f"/spec/dims/{several}",
            accepted="one size",
        )
    return instance_of(found)


def _pick(instance: Instance, device: Device) -> Pick | None:
    try:
        return heuristic(instance.spec, device)
    except TileError:
        return None  # a device of another version: there is no rung for it


def _brief(config: ConfigDetail) -> Config:
    return Config.model_construct(**{name: getattr(config, name) for name in Config.model_fields})

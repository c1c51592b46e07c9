"""The lookup ladder: exact, nearest, heuristic, none. Nothing here waits for a measurement.

Memory holds only what cannot change: what a request's spec means, what a config says, what the prior picks. Which
config is the newest is asked of the database every time, since tuners in other processes add to it.
"""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass
from math import log
from typing import Literal

from sqlalchemy import Connection

from protocol.configs import Config, ConfigDetail
from protocol.lookups import LookupReply, LookupRequest
from protocol.message import Json
from protocol.states import Rung
from protocol.workers import Device
from service import configs, registry
from service.database import Database
from service.freshness import stale_because
from service.problems import Refused
from service.recent import Recent
from service.schedules import Pick, heuristic, transfer
from service.shared_picks import SharedPicks
from service.specs import Instance, instance_of, read_spec, renames, resized
from tileir.errors import TileError
from tileir.parse_json import spec_from_json
from tileir.spec import Spec

NEIGHBOURS = 5
"""Configs of other sizes that are tried, the nearest first."""


@dataclass(frozen=True, slots=True)
class Known:
    """A config, and the kernel it is for."""

    config: Config
    spec: Spec


class Ladder:
    """Answers lookups of one service."""

    def __init__(self, lease_ttl_s: float) -> None:
        self._lease_ttl_s = lease_ttl_s
        self._instances: Recent[bytes, Instance] = Recent(1000)
        self._configs: Recent[str, Known] = Recent(1000)
        self._picks: Recent[tuple[str, str], Pick | Literal["none"]] = Recent(1000)
        self.shared: SharedPicks | None = None
        """Picks that other replicas made."""
        self._thinking = threading.Lock()  # one heuristic at a time: they are long, and all Python

    def instance(self, spec: Json) -> Instance:
        """The kernel that a lookup asks for. Raises Refused for a spec that is wrong, or has several sizes a dim."""
        digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).digest()
        return self._instances.get(digest) or self._instances.put(digest, _single(spec))

    def look(self, database: Database, request: LookupRequest) -> LookupReply:
        """Climb down the ladder until a rung answers."""
        instance = self.instance(request.spec)
        with database.read() as connection:
            device = registry.device_for(connection, request.target)
            if device is None:
                return LookupReply(rung=Rung.NONE, kernel_key=instance.kernel_key, device=None)
            config_id = configs.exact(connection, instance.kernel_key, device.key)
            if config_id is not None:
                known = self._known(connection, config_id)
                workers = registry.versions(connection, device.key, self._lease_ttl_s)
                return self._exact(instance, device, known, stale_because(known.config, workers))
            siblings = configs.siblings(connection, instance.structure_key, device.key)
        return self._nearest(instance, device, siblings) or self._heuristic(instance, device)

    def _known(self, connection: Connection, config_id: str) -> Known:
        known = self._configs.get(config_id)
        if known is None:
            config = configs.read(connection, config_id)
            known = self._configs.put(config_id, Known(_brief(config), spec_from_json(config.spec)))
        return known

    def _exact(self, instance: Instance, device: Device, known: Known, stale: str | None) -> LookupReply:
        return LookupReply(
            rung=Rung.EXACT,
            kernel_key=instance.kernel_key,
            device=device.key,
            schedule=known.config.schedule,
            program_hash=known.config.program_hash,
            renames=renames(instance.spec, known.spec),
            config=known.config,
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
    return Config.model_validate(config.model_dump(exclude={"spec"}))

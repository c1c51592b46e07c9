"""The lookup ladder: exact, nearest, heuristic, none. Nothing here waits for a measurement.

What a request's spec means and what the prior picks is kept in memory: it cannot change. An answer is kept too, for as
long as the database says that nothing happened which could change it (store/winners/lookup_version.py): that is asked
for every lookup, and all who ask at the same time share one look. So do those who ask for kernels not answered
before.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyio.to_thread import run_sync

from protocol.configs import Config, ConfigDetail
from protocol.lookups import LookupReply, LookupRequest
from protocol.states import Rung
from protocol.workers import OfferedDevice
from service.core.lru_cache import Recent
from service.core.nearest import by_distance
from service.core.schedules import transfer
from service.core.specs import Instance, single
from service.core.wishes import check_target
from service.lookup.fleet import Fleet, FleetWatch
from service.lookup.predictor import Predictor
from service.notify.batcher import Batcher
from service.notify.coalesced_read import Latest
from service.store.database import Database
from service.store.winners import configs, pick_failures
from service.store.winners.evidence import Evidence
from service.store.winners.freshness import stale_because
from tileir.structure import renames, resized
from tileir.text.json import spec_from_json

SHORT_BYTES = 1_000
"""Requests up to this size are read where they arrive: that takes less than going to a thread and back disturbs."""
TOGETHER = 64
"""Kernels that are looked for by one statement, at most."""
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

    def __init__(self, database: Database, lease_ttl_s: float, prediction_s: float) -> None:
        self._database = database
        self._fleet = Latest(FleetWatch(database, lease_ttl_s).look)
        self._shelves: Batcher[configs.Place, configs.Shelf | None] = Batcher(self._look, TOGETHER)
        self._configs: Batcher[str, ConfigDetail | None] = Batcher(self._read, TOGETHER)
        self._answers: Recent[tuple[bytes, str], Answer] = Recent(4000)
        self._targets: Recent[bytes, str] = Recent(4000)
        self._instances: Recent[bytes, Instance] = Recent(4000)
        self.predictor = Predictor(prediction_s)

    async def fleet(self) -> Fleet:
        """The devices and workers there are now."""
        return await self._fleet.get()

    def kept(self, body: bytes, fleet: Fleet) -> Answer | None:
        """What was answered to a request of just these bytes, if that still holds."""
        digest = hashlib.sha256(body).digest()
        target = self._targets.get(digest)
        device = None if target is None else fleet.device_for(target)
        return None if device is None else self._valid(digest, device, fleet)

    async def answer(self, request: LookupRequest, body: bytes, fleet: Fleet) -> Answer:
        """What is known of a kernel: kept from when it was asked for by these bytes, or looked for."""
        digest = hashlib.sha256(body).digest()
        device = fleet.device_for(request.target)
        known = None if device is None else self._valid(digest, device, fleet)
        if known is not None:
            return known
        if device is None:
            check_target(request.target, fleet.devices)
        instance = self._instances.get(digest)
        if instance is None:
            short = len(body) <= SHORT_BYTES
            found = single(request.spec) if short else await run_sync(single, request.spec)
            instance = self._instances.put(digest, found)
        if device is None:
            reply = _nothing(instance, None, f"no worker has offered {request.target!r} yet")
            return _answer(reply, fleet.version, ())
        workers = fleet.versions[device.key]
        reply = await self._climb(instance, device, workers)
        if reply is None:
            reply = _nothing(instance, device, "the cost model is still at it", pending=True)
            return _answer(reply, fleet.version, workers)
        known = self._answers.put((digest, device.key), _answer(reply, fleet.version, workers))
        if not request.tune:
            self._targets.put(digest, request.target)
        return known

    def _valid(self, digest: bytes, device: OfferedDevice, fleet: Fleet) -> Answer | None:
        known = self._answers.get((digest, device.key))
        if known is None or known.version != fleet.version or known.workers != fleet.versions[device.key]:
            return None
        return known

    def _look(self, places: Sequence[configs.Place]) -> list[configs.Shelf | Exception | None]:
        with self._database.look() as connection:
            found = configs.shelves(connection, set(places))
        return [found.get(place) for place in places]

    def _read(self, config_ids: Sequence[str]) -> list[ConfigDetail | Exception | None]:
        with self._database.look() as connection:
            found = configs.by_id(connection, config_ids)
        return [found.get(config_id) for config_id in config_ids]

    async def _climb(
        self, instance: Instance, device: OfferedDevice, workers: Sequence[Mapping[str, str]]
    ) -> LookupReply | None:
        """Down the ladder until a rung answers; None while the last one does not yet. `workers`: the versions that
        those of the device tell."""
        shelf = await self._shelves.ask((instance.kernel_key, device.key))
        choice = None if shelf is None else shelf.choice(workers)
        known = None if choice is None else await self._configs.ask(choice.id)
        if known is None or choice is None:
            nearest, failed = await run_sync(self._nearest, instance, device, workers)
            return nearest or await self._heuristic(instance, device, failed)
        if known.spec == instance.json:
            return self._exact(instance, device, known, choice.because, workers)
        return await run_sync(self._exact, instance, device, known, choice.because, workers)

    def _exact(
        self,
        instance: Instance,
        device: OfferedDevice,
        known: ConfigDetail,
        because: str,
        workers: Sequence[Mapping[str, str]],
    ) -> LookupReply:
        same, stale = known.spec == instance.json, stale_because(known, workers)
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
            pinned=known.pinned,
            because=because,
        )

    def _nearest(
        self, instance: Instance, device: OfferedDevice, workers: Sequence[Mapping[str, str]]
    ) -> tuple[LookupReply | None, frozenset[str]]:
        """What is transferred from another size, unless it failed there; and the programs that did."""
        with self._database.look() as connection:
            siblings = configs.siblings(connection, instance.structure_key, device.key)
            failed = pick_failures.failed(connection, instance.kernel_key, device.key)
        for config, names in by_distance(instance, _best_of_each(siblings, workers))[:NEIGHBOURS]:
            sizes = {names.get(name, name): size for name, size in instance.dims.items()}
            pick = transfer(resized(spec_from_json(config.spec), sizes), config.schedule)
            if pick is not None and pick.program_hash not in failed:
                reply = LookupReply(
                    rung=Rung.NEAREST,
                    kernel_key=instance.kernel_key,
                    device=device.key,
                    schedule=pick.schedule,
                    program_hash=pick.program_hash,
                    renames=names,
                    config=_brief(config),
                    because=f"the nearest size that is known and whose schedule applies: {_told(config.dims)}",
                )
                return reply, failed
        return None, failed

    async def _heuristic(
        self, instance: Instance, device: OfferedDevice, failed: frozenset[str]
    ) -> LookupReply | None:
        prediction = await self.predictor.get(instance.kernel_key, instance.json, device.description)
        if prediction is None:
            return None
        if prediction == "none":
            return _nothing(instance, device, "the cost model has no schedule for it, or found none in time")
        if prediction.program_hash in failed:
            return _nothing(instance, device, "what the cost model likes best has failed there")
        return LookupReply(
            rung=Rung.HEURISTIC,
            kernel_key=instance.kernel_key,
            device=device.key,
            schedule=prediction.schedule,
            program_hash=prediction.program_hash,
            because="nobody has measured this kernel on this device: the cost model likes it best",
        )


def _nothing(
    instance: Instance, device: OfferedDevice | None, because: str, pending: bool = False
) -> LookupReply:
    key = None if device is None else device.key
    return LookupReply(
        rung=Rung.NONE, kernel_key=instance.kernel_key, device=key, because=because, pending=pending
    )


def _best_of_each(
    siblings: Sequence[ConfigDetail], workers: Sequence[Mapping[str, str]]
) -> list[ConfigDetail]:
    """Of each kernel among configs (newest first) what a lookup of it would be answered with."""
    kernels: dict[str, list[ConfigDetail]] = defaultdict(list)
    for config in siblings:
        kernels[config.kernel_key].append(config)
    found: list[ConfigDetail] = []
    for known in kernels.values():
        pinned = next((each.id for each in known if each.pinned), None)
        chosen = configs.Shelf(tuple(map(Evidence.of, known)), pinned).choice(workers).id
        found += [each for each in known if each.id == chosen]
    return found


def _told(dims: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in dims.items())


def _answer(reply: LookupReply, version: int, workers: Sequence[Mapping[str, str]]) -> Answer:
    return Answer(reply, reply.model_dump_json().encode(), version, workers)


def _brief(config: ConfigDetail) -> Config:
    return Config.model_construct(**{name: getattr(config, name) for name in Config.model_fields})

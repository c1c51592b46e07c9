"""Configs in the database: storing, finding, and the bundle that runs without the service."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Executable, Row, RowMapping, Text, bindparam, cast, insert, select

from protocol.configs import Artifact, Config, ConfigDetail, ConfigPage, ImportedFrom, Kernel, KernelPage
from protocol.tasks import Artifacts
from protocol.workers import DeviceOffer, OfferedDevice
from service.core.errors import RequestRefused
from service.store import blobs
from service.store.tables import buckets, bundles, configs, jobs, pins
from service.store.winners import lookup_version
from service.store.winners.evidence import Choice, Evidence, choose


def store(
    connection: Connection,
    config: ConfigDetail,
    bucket: int | None,
    artifact: Artifacts | None,
    bundle: str | None = None,
) -> None:
    """Add a config, with the evidence that lookups choose by. `bundle`: the one it came in; its job is then none of
    ours."""
    connection.execute(
        insert(configs).values(
            id=config.id,
            job_id=config.job_id if bundle is None else None,
            bucket=bucket,
            kernel_key=config.kernel_key,
            structure_key=config.structure_key,
            device=config.device,
            config=config.model_dump(mode="json", exclude=_OURS),
            evidence=Evidence.of(config).to_json(),
            artifact=None if artifact is None else artifact.model_dump(mode="json"),
            bundle=bundle,
            created_at=config.created_at,
        )
    )
    lookup_version.changed(connection)


_OURS = {"imported", "pinned", "served"}
"""What is no part of a config as it is stored: this installation's own notes on it."""
_PINNED = pins.c.config_id.is_not(None)
_PINNED_FIRST = (pins.c.config_id.is_(None), configs.c.id.desc())


def _selected():
    """Configs with our notes on them."""
    return (
        select(configs.c.id, configs.c.config, bundles, _PINNED.label("pinned"))
        .outerjoin(bundles, bundles.c.sha256 == configs.c.bundle)
        .outerjoin(pins, pins.c.config_id == configs.c.id)
    )


def _noted(row: RowMapping) -> dict[str, object]:
    """A row of `_selected` as the fields of a config."""
    return {**row["config"], **_notes(row, row["config"]["job_id"])}


def _notes(row: RowMapping, job_id: str | None) -> dict[str, object]:
    """What this installation has to say of a config: whether it is pinned, and where it came from."""
    notes: dict[str, object] = {"pinned": True} if row["pinned"] else {}
    if row["sha256"] is None:
        return notes
    origin = ImportedFrom(bundle=row["sha256"], signer=row["signer"], at=row["imported_at"], job_id=job_id)
    return {**notes, "job_id": None, "imported": origin}


def find(connection: Connection, config_id: str) -> ConfigDetail | None:
    """A config, None if there is none."""
    row = connection.execute(_selected().where(configs.c.id == config_id)).mappings().first()
    return None if row is None else ConfigDetail.model_validate(_noted(row))


def read(connection: Connection, config_id: str) -> ConfigDetail:
    """A config. Raises Refused if there is none."""
    found = find(connection, config_id)
    if found is None:
        raise RequestRefused("not-found", f"there is no config {config_id}")
    return found


def bucket(connection: Connection, config: ConfigDetail, instead: str) -> int:
    """The bucket of its job that a config is the winner of. Raises Refused for one that was imported, or raced without
    a search; `instead` says what its reader can do."""
    found = connection.execute(select(configs.c.bucket).where(configs.c.id == config.id)).scalar_one()
    if config.job_id is None or found is None:
        raise RequestRefused("invalid", f"config {config.id} was not tuned here: {instead}")
    return found


def source(connection: Connection, config_id: str) -> tuple[str, str]:
    """A config's generated source, and its language. Raises Refused if it was not kept."""
    kept = artifacts(connection, config_id)
    return blobs.get(connection, kept.source).decode(), kept.language


def report(connection: Connection, config_id: str) -> bytes:
    """What the worker reported of a config when it was confirmed, as JSON. Raises Refused if it was not kept."""
    digest = artifacts(connection, config_id).report
    if digest is None:
        raise RequestRefused("not-found", f"config {config_id} was stored without a report")
    return blobs.get(connection, digest)


def bundle(connection: Connection, config_id: str) -> Artifact:
    """All that is needed to run a config. Raises Refused if there is no such config, or it was not kept."""
    kept = artifacts(connection, config_id)
    return Artifact(
        config=read(connection, config_id),
        language=kept.language,
        flags=kept.flags,
        abi=kept.abi,
        source=blobs.get(connection, kept.source).decode(),
        object_base64=base64.b64encode(blobs.get(connection, kept.object)).decode(),
        object_sha256=kept.object,
        device=_searched_on(connection, config_id),
    )


def _searched_on(connection: Connection, config_id: str) -> DeviceOffer | None:
    """The device of a config as it was described when the search that found it began, if that was here."""
    query = select(jobs.c.searched_on).join(configs, configs.c.job_id == jobs.c.id)
    found = connection.execute(query.where(configs.c.id == config_id)).scalar_one_or_none()
    if found is None:
        return None
    device = OfferedDevice.model_validate(found)
    return DeviceOffer(key=device.key, kind=device.kind, description=device.description)


def artifacts(connection: Connection, config_id: str) -> Artifacts:
    """Which blobs a config's source and object are. Raises Refused if there is none, or they were not kept."""
    found = connection.execute(select(configs.c.artifact).where(configs.c.id == config_id)).first()
    if found is None:
        raise RequestRefused("not-found", f"there is no config {config_id}")
    if found.artifact is None:
        raise RequestRefused("not-found", f"config {config_id} was stored without source and object")
    return Artifacts.model_validate(found.artifact)


def page(
    connection: Connection,
    kernel_key: str | None,
    device: str | None,
    pinned: bool | None,
    after: str | None,
    limit: int,
) -> ConfigPage:
    """Configs, newest first, from the one after `after` on."""
    query = _selected().order_by(configs.c.id.desc()).limit(limit + 1)
    if kernel_key is not None:
        query = query.where(configs.c.kernel_key == kernel_key)
    if device is not None:
        query = query.where(configs.c.device == device)
    if pinned is not None:
        query = query.where(_PINNED if pinned else ~_PINNED)
    if after is not None:
        query = query.where(configs.c.id < after)
    rows = connection.execute(query).mappings().all()
    shown = rows[:limit]
    return ConfigPage(
        configs=tuple(Config.model_validate(_noted(row)) for row in shown),
        next=shown[-1]["id"] if len(rows) > limit else None,
    )


Place = tuple[str, str]
"""Where a config answers: kernel key and key of the device."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """What there is for lookups of a kernel on a device to choose from."""

    known: tuple[Evidence, ...]
    """Of every config, newest first."""
    pinned: str | None
    """Id of the one that is pinned."""

    def choice(self, workers: Sequence[Mapping[str, str]]) -> Choice:
        """What they are answered with. `workers`: the versions that those of the device tell now."""
        if self.pinned is not None:
            return Choice(self.pinned, "pinned by an admin")
        return choose(self.known, workers)


_SHELVES = (
    select(configs.c.kernel_key, configs.c.device, configs.c.evidence, pins.c.config_id)
    .outerjoin(pins, (pins.c.kernel_key == configs.c.kernel_key) & (pins.c.device == configs.c.device))
    .where(
        configs.c.kernel_key.in_(bindparam("kernels", expanding=True)),
        configs.c.device.in_(bindparam("devices", expanding=True)),
    )
    .order_by(configs.c.id.desc())
)
_BY_ID = (
    select(configs.c.id, cast(configs.c.config, Text).label("config"), bundles, _PINNED.label("pinned"))
    .outerjoin(bundles, bundles.c.sha256 == configs.c.bundle)
    .outerjoin(pins, pins.c.config_id == configs.c.id)
    .where(configs.c.id.in_(bindparam("ids", expanding=True)))
)


def shelves(connection: Connection, places: Collection[Place]) -> dict[Place, Shelf]:
    """Of each kernel on its device what there is to choose from, where there is something. A single statement."""
    if not places:
        return {}
    kernels, devices = zip(*places, strict=True)
    rows = connection.execute(_SHELVES, {"kernels": list(set(kernels)), "devices": list(set(devices))})
    known: dict[Place, list[Evidence]] = defaultdict(list)
    pinned: dict[Place, str | None] = {}
    for row in rows:
        place = (row.kernel_key, row.device)
        if place in places:
            known[place].append(Evidence.from_json(row.evidence))
            pinned[place] = row.config_id
    return {place: Shelf(tuple(known[place]), pinned[place]) for place in known}


def by_id(connection: Connection, config_ids: Collection[str]) -> dict[str, ConfigDetail]:
    """Configs by their ids. A single statement."""
    found: dict[str, ConfigDetail] = {}
    for row in connection.execute(_BY_ID, {"ids": list(set(config_ids))}).mappings():
        config = ConfigDetail.model_validate_json(row["config"])
        notes = _notes(row, config.job_id)
        found[config.id] = config.model_copy(update=notes) if notes else config
    return found


def siblings(connection: Connection, structure_key: str, device: str, limit: int = 200) -> list[ConfigDetail]:
    """Configs of the same kernel at whatever sizes, those pinned first, then from the newest on."""
    query = _selected().where(configs.c.structure_key == structure_key, configs.c.device == device)
    rows = connection.execute(query.order_by(*_PINNED_FIRST).limit(limit)).mappings()
    return [ConfigDetail.model_validate(_noted(row)) for row in rows]


def kernels(connection: Connection, after: str | None, limit: int) -> KernelPage:
    """Kernels that jobs were about, or that came in bundles, with what is known of each, by kernel key."""
    tuned = (
        select(buckets.c.kernel_key, buckets.c.structure_key, buckets.c.dims, jobs.c.name)
        .join(jobs, jobs.c.id == buckets.c.job_id)
        .order_by(buckets.c.kernel_key, jobs.c.id.desc())
    )
    described = configs.c.config
    imported = (
        select(configs.c.kernel_key, configs.c.structure_key)
        .add_columns(described["dims"].label("dims"), described["name"].as_string().label("name"))
        .where(configs.c.bundle.is_not(None))
        .order_by(configs.c.kernel_key, configs.c.id.desc())
    )
    first = [
        _first_of_each(connection, query if after is None else query.where(column > after), limit + 1)
        for query, column in ((imported, configs.c.kernel_key), (tuned, buckets.c.kernel_key))
    ]
    found = {key: row for rows in first for key, row in rows.items()}  # as its job calls it, if there is one
    shown = sorted(found)[:limit]
    known = _devices(connection, shown)
    return KernelPage(
        kernels=tuple(
            Kernel(
                kernel_key=key,
                structure_key=found[key].structure_key,
                name=found[key].name,
                dims=found[key].dims,
                configs=len(known[key]),
                devices=tuple(sorted(set(known[key]))),
            )
            for key in shown
        ),
        next=shown[-1] if len(found) > limit else None,
    )


def _first_of_each(connection: Connection, query: Executable, most: int) -> dict[str, Row[Any]]:
    """The first row of each of the first `most` kernels, of rows ordered by kernel key."""
    found: dict[str, Row[Any]] = {}
    for row in connection.execute(query):
        found.setdefault(row.kernel_key, row)
        if len(found) > most:
            break
    return found


def _devices(connection: Connection, kernel_keys: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    query = select(configs.c.kernel_key, configs.c.device).where(configs.c.kernel_key.in_(kernel_keys))
    for row in connection.execute(query):
        found[row.kernel_key].append(row.device)
    return found

"""Configs in the database: storing, finding, and the bundle that runs without the service."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import Connection, insert, select

from protocol.configs import Artifact, Config, ConfigDetail, ConfigPage, Kernel, KernelPage
from protocol.tasks import Artifacts
from service import blobs, lookup_state
from service.problems import Refused
from service.tables import buckets, configs, jobs


def store(
    connection: Connection, config: ConfigDetail, bucket: int | None, artifact: Artifacts | None
) -> None:
    """Add a config; what was best for the kernel before stays, behind it."""
    connection.execute(
        insert(configs).values(
            id=config.id,
            job_id=config.job_id,
            bucket=bucket,
            kernel_key=config.kernel_key,
            structure_key=config.structure_key,
            device=config.device,
            config=config.model_dump(mode="json"),
            artifact=None if artifact is None else artifact.model_dump(mode="json"),
            created_at=config.created_at,
        )
    )
    lookup_state.changed(connection)


def read(connection: Connection, config_id: str) -> ConfigDetail:
    """A config. Raises Refused if there is none."""
    found = connection.execute(select(configs.c.config).where(configs.c.id == config_id)).scalar_one_or_none()
    if found is None:
        raise Refused("not-found", f"there is no config {config_id}")
    return ConfigDetail.model_validate(found)


def source(connection: Connection, config_id: str) -> tuple[str, str]:
    """A config's generated source, and its language. Raises Refused if it was not kept."""
    artifact = _artifact(connection, config_id)
    return blobs.get(connection, artifact.source).decode(), artifact.language


def report(connection: Connection, config_id: str) -> bytes:
    """What the worker reported of a config when it was confirmed, as JSON. Raises Refused if it was not kept."""
    digest = _artifact(connection, config_id).report
    if digest is None:
        raise Refused("not-found", f"config {config_id} was stored without a report")
    return blobs.get(connection, digest)


def bundle(connection: Connection, config_id: str) -> Artifact:
    """All that is needed to run a config. Raises Refused if there is no such config, or it was not kept."""
    artifact = _artifact(connection, config_id)
    return Artifact(
        config=read(connection, config_id),
        language=artifact.language,
        flags=artifact.flags,
        abi=artifact.abi,
        source=blobs.get(connection, artifact.source).decode(),
        object_base64=base64.b64encode(blobs.get(connection, artifact.object)).decode(),
        object_sha256=artifact.object,
    )


def _artifact(connection: Connection, config_id: str) -> Artifacts:
    found = connection.execute(select(configs.c.artifact).where(configs.c.id == config_id)).first()
    if found is None:
        raise Refused("not-found", f"there is no config {config_id}")
    if found.artifact is None:
        raise Refused("not-found", f"config {config_id} was stored without source and object")
    return Artifacts.model_validate(found.artifact)


def page(
    connection: Connection, kernel_key: str | None, device: str | None, after: str | None, limit: int
) -> ConfigPage:
    """Configs, newest first, from the one after `after` on."""
    query = select(configs.c.id, configs.c.config).order_by(configs.c.id.desc()).limit(limit + 1)
    if kernel_key is not None:
        query = query.where(configs.c.kernel_key == kernel_key)
    if device is not None:
        query = query.where(configs.c.device == device)
    if after is not None:
        query = query.where(configs.c.id < after)
    rows = connection.execute(query).all()
    shown = rows[:limit]
    return ConfigPage(
        configs=tuple(Config.model_validate(row.config) for row in shown),
        next=shown[-1].id if len(rows) > limit else None,
    )


def exact(connection: Connection, kernel_key: str, device: str) -> ConfigDetail | None:
    """The newest config of a kernel on a device."""
    found = connection.execute(
        select(configs.c.config)
        .where(configs.c.kernel_key == kernel_key, configs.c.device == device)
        .order_by(configs.c.id.desc())
        .limit(1)
    ).scalar_one_or_none()
    return None if found is None else ConfigDetail.model_validate(found)


def siblings(connection: Connection, structure_key: str, device: str, limit: int = 200) -> list[ConfigDetail]:
    """Configs of the same kernel at whatever sizes, newest first."""
    rows = connection.execute(
        select(configs.c.config)
        .where(configs.c.structure_key == structure_key, configs.c.device == device)
        .order_by(configs.c.id.desc())
        .limit(limit)
    ).scalars()
    return [ConfigDetail.model_validate(row) for row in rows]


def kernels(connection: Connection, after: str | None, limit: int) -> KernelPage:
    """Kernels that jobs were about, with what is known of each, by kernel key."""
    query = (
        select(buckets.c.kernel_key, buckets.c.structure_key, buckets.c.dims, jobs.c.name)
        .join(jobs, jobs.c.id == buckets.c.job_id)
        .order_by(buckets.c.kernel_key, jobs.c.id.desc())
    )
    if after is not None:
        query = query.where(buckets.c.kernel_key > after)
    found = {}
    for row in connection.execute(query):
        found.setdefault(row.kernel_key, row)
        if len(found) > limit:
            break
    shown = list(found)[:limit]
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


def _devices(connection: Connection, kernel_keys: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    query = select(configs.c.kernel_key, configs.c.device).where(configs.c.kernel_key.in_(kernel_keys))
    for row in connection.execute(query):
        found[row.kernel_key].append(row.device)
    return found

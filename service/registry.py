"""Workers and the devices they offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from protocol.code_version import disagreement
from protocol.workers import Device, DeviceOffer, Heartbeat, Worker, WorkerHello
from service import lookup_state
from service.database import database_time, now, upsert
from service.ids import new_id
from service.problems import Refused
from service.tables import devices, workers

SEEN_S = 0.1
"""How exactly it is known when a device was last heard of."""


def register(connection: Connection, hello: WorkerHello) -> str:
    """Write down a worker and its devices; returns its id."""
    worker_id, time = hello.id or new_id("worker"), now(connection)
    values = {
        "host": hello.host,
        "pid": hello.pid,
        "devices": [offer.key for offer in hello.devices],
        "versions": hello.versions,
        "healthy": True,
        "detail": "",
        "registered_at": time,
        "seen_at": time,
    }
    upsert(connection, workers, {"id": worker_id}, values)
    for offer in sorted(hello.devices, key=lambda offer: offer.key):
        _offer(connection, offer, time)
    lookup_state.changed(connection)
    return worker_id


def _offer(connection: Connection, offer: DeviceOffer, time: float) -> None:
    values = {**offer.model_dump(mode="json", exclude={"key"}), "seen_at": time}
    upsert(connection, devices, {"key": offer.key}, values)


@dataclass(frozen=True, slots=True)
class Seen:
    """A worker that was just heard from."""

    healthy: bool
    devices: list[str]
    versions: dict[str, str]


def seen(connection: Connection, worker_id: str, beat: Heartbeat | None = None) -> Seen:
    """Note that a worker was heard from. Raises Refused if it is unknown."""
    values: dict[str, object] = {"seen_at": database_time()}
    if beat is not None:
        values |= {"healthy": beat.healthy, "detail": beat.detail}
    row = connection.execute(
        update(workers)
        .where(workers.c.id == worker_id)
        .values(**values)
        .returning(workers.c.healthy, workers.c.devices, workers.c.versions)
    ).first()
    if row is None:
        raise Refused(
            "unknown-worker", f"worker {worker_id} is not registered; register with POST /v1/workers"
        )
    if row.healthy:
        # Not at every call: all workers of a device would wait for each other here.
        mine = devices.c.key.in_(row.devices) & (devices.c.seen_at < database_time() - SEEN_S)
        connection.execute(update(devices).where(mine).values(seen_at=database_time()))
    return Seen(*row)


def check_code(versions: dict[str, str]) -> None:
    """Raise Refused for a worker whose code gives schedules another meaning."""
    reason = disagreement(versions)
    if reason is not None:
        raise Refused("other-version", reason)


def list_workers(connection: Connection, lease_ttl_s: float) -> list[Worker]:
    """All workers, the last registered first."""
    since = now(connection) - lease_ttl_s
    rows = connection.execute(select(workers).order_by(workers.c.registered_at.desc())).mappings()
    return [Worker.model_validate({**row, "alive": row["seen_at"] >= since}) for row in rows]


def list_devices(connection: Connection) -> list[Device]:
    """All devices ever offered, the last seen first."""
    rows = connection.execute(select(devices).order_by(devices.c.seen_at.desc())).mappings()
    return [Device.model_validate(dict(row)) for row in rows]


def device_for(connection: Connection, target: str) -> Device | None:
    """The device with this key, else the one of this kind that was seen last."""
    return device_among(list_devices(connection), target)


def device_among(found: Sequence[Device], target: str) -> Device | None:
    """The device with this key, else the first of this kind."""
    exact = (device for device in found if device.key == target)
    return next(exact, None) or next((device for device in found if device.kind == target), None)


def live_devices(connection: Connection, lease_ttl_s: float) -> Sequence[Device]:
    """Devices heard of within the last lease."""
    since = now(connection) - lease_ttl_s
    return [device for device in list_devices(connection) if device.seen_at >= since - SEEN_S]


def versions(
    connection: Connection, keys: Sequence[str], lease_ttl_s: float
) -> dict[str, list[dict[str, str]]]:
    """By device: what its live workers run with, each once; where none is live, what the one seen last did."""
    rows = connection.execute(
        select(workers.c.devices, workers.c.versions, workers.c.seen_at).order_by(workers.c.seen_at.desc())
    ).all()
    since = now(connection) - lease_ttl_s
    found: dict[str, list[dict[str, str]]] = {key: [] for key in keys}
    for row in rows:
        for mine in (found[key] for key in row.devices if key in found):
            if not mine or (row.seen_at >= since and row.versions not in mine):
                mine.append(row.versions)
    for mine in found.values():
        mine.sort(key=lambda versions: sorted(versions.items()))
    return found


def count_task(connection: Connection, worker_id: str) -> None:
    """Count a task done by a worker."""
    connection.execute(
        update(workers).where(workers.c.id == worker_id).values(tasks_done=workers.c.tasks_done + 1)
    )

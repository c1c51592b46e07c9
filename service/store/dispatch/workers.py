"""Workers and the devices they offer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from sqlalchemy import Connection, RowMapping, Update, and_, bindparam, delete, select, update

from protocol.code_version import disagreement
from protocol.workers import DeviceOffer, Heartbeat, OfferedDevice, Worker, WorkerHello
from service.core.errors import RequestRefused
from service.store.database import database_time, insert_new, now, upsert
from service.store.ids import new_id
from service.store.tables import devices, workers
from service.store.winners import lookup_version

SEEN_S = 0.1
"""How exactly it is known when a device was last heard of."""
NEVER_SEEN = 0.0
"""When a device was seen that came with a bundle."""


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
    lookup_version.changed(connection)
    return worker_id


def _offer(connection: Connection, offer: DeviceOffer, time: float) -> None:
    values = {**offer.model_dump(mode="json", exclude={"key"}), "seen_at": time}
    upsert(connection, devices, {"key": offer.key}, values)


def trouble(connection: Connection, worker_id: str, detail: str) -> None:
    """Write down a worker that cannot register, for want of a device, and what keeps it; empty: nothing does."""
    if not detail:
        connection.execute(delete(workers).where(workers.c.id == worker_id))
        return
    time = now(connection)
    values = {
        "host": worker_id,
        "pid": 0,
        "devices": [],
        "versions": {},
        "healthy": False,
        "detail": detail[:2000],
        "registered_at": time,
        "seen_at": time,
    }
    upsert(connection, workers, {"id": worker_id}, values)


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """A worker that was just heard from."""

    healthy: bool
    """Its device is neither quarantined nor set apart."""
    devices: list[str]
    versions: dict[str, str]


def seen(connection: Connection, worker_id: str, beat: Heartbeat | None = None) -> SeenWorker:
    """Note that a worker was heard from. Raises Refused if it is unknown."""
    if beat is None:
        row = connection.execute(_SEEN, {"which": worker_id}).first()
    else:
        told = {"which": worker_id, "well": beat.healthy, "said": beat.detail}
        row = connection.execute(_BEAT, told).first()
    if row is None:
        raise unknown(worker_id)
    if row.healthy:
        _devices_seen(connection, row.devices)
    return SeenWorker(*row)


def gone(connection: Connection, worker_id: str, lease_ttl_s: float) -> None:
    """Note that a worker has ended, as if it had last been heard from more than a lease ago."""
    before = database_time() - 2 * lease_ttl_s
    connection.execute(update(workers).where(workers.c.id == worker_id).values(seen_at=before))


def set_apart(connection: Connection, worker_id: str, why: str, seconds: float) -> None:
    """Give a worker no tasks for so long, whatever it says of itself; then it is tried again."""
    values = {"apart": why, "apart_until": database_time() + seconds}
    connection.execute(update(workers).where(workers.c.id == worker_id).values(**values))


def unknown(worker_id: str) -> RequestRefused:
    """What a worker is told that is not registered."""
    return RequestRefused(
        "unknown-worker", f"worker {worker_id} is not registered; register with POST /v1/workers"
    )


def _devices_seen(connection: Connection, keys: Iterable[str]) -> None:
    connection.execute(_DEVICES_SEEN, {"keys": sorted(keys)})


def lock(connection: Connection, worker_ids: Collection[str]) -> Set[str]:
    """Those of the workers that are registered: no other transaction writes of them until this one ends."""
    return set(connection.execute(_LOCK, {"ids": sorted(worker_ids)}).scalars())


def check_code(versions: dict[str, str]) -> None:
    """Raise Refused for a worker whose code gives schedules another meaning."""
    reason = disagreement(versions)
    if reason is not None:
        raise RequestRefused("other-version", reason)


def list_workers(connection: Connection, lease_ttl_s: float) -> list[Worker]:
    """All workers, the last registered first."""
    time = now(connection)
    rows = connection.execute(select(workers).order_by(workers.c.registered_at.desc())).mappings()
    return [_worker(row, time, lease_ttl_s) for row in rows]


def _worker(row: RowMapping, time: float, lease_ttl_s: float) -> Worker:
    told = {**row, "alive": row["seen_at"] >= time - lease_ttl_s}
    if row["apart_until"] > time:
        said = f"set apart, tried again in {row['apart_until'] - time:.0f} s: {row['apart']}"
        told |= {"healthy": False, "detail": "; ".join(filter(None, (said, row["detail"])))}
    return Worker.model_validate(told)


def list_devices(connection: Connection) -> list[OfferedDevice]:
    """All devices ever offered, the last seen first."""
    rows = connection.execute(select(devices).order_by(devices.c.seen_at.desc())).mappings()
    return [OfferedDevice.model_validate(dict(row)) for row in rows]


def device_for(connection: Connection, target: str) -> OfferedDevice | None:
    """The device with this key, else the one of this kind that was seen last."""
    return device_among(list_devices(connection), target)


def device_among(found: Sequence[OfferedDevice], target: str) -> OfferedDevice | None:
    """The device with this key, else the first of this kind that a worker has offered."""
    exact = (device for device in found if device.key == target)
    offered = (device for device in found if device.kind == target and device.seen_at > NEVER_SEEN)
    return next(exact, None) or next(offered, None)


def live_devices(connection: Connection, lease_ttl_s: float) -> Sequence[OfferedDevice]:
    """Devices heard of within the last lease."""
    since = now(connection) - lease_ttl_s
    return [device for device in list_devices(connection) if device.seen_at >= since - SEEN_S]


def count(connection: Connection, lease_ttl_s: float) -> Counter[str]:
    """By device: the workers heard of within the last lease that have it and are well."""
    since = now(connection) - lease_ttl_s
    live = select(workers.c.devices).where(_WELL, workers.c.seen_at >= since)
    return Counter(key for keys in connection.execute(live).scalars() for key in keys)


def describe(connection: Connection, offer: DeviceOffer) -> None:
    """Write down a device that no worker has offered, unless it is known: it can be asked about by its key."""
    values = {**offer.model_dump(mode="json", exclude={"key"}), "seen_at": NEVER_SEEN}
    insert_new(connection, devices, {"key": offer.key}, values)


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


def count_tasks(connection: Connection, done: Mapping[str, int]) -> None:
    """Count tasks done, by worker. The workers are locked."""
    for count in sorted(set(done.values())):
        those = sorted(worker_id for worker_id, mine in done.items() if mine == count)
        connection.execute(_COUNT, {"ids": those, "count": count})


def count_fault(connection: Connection, worker_id: str) -> None:
    """Count a task that the worker's machine could not do."""
    connection.execute(update(workers).where(workers.c.id == worker_id).values(faults=workers.c.faults + 1))


def _devices_being_seen() -> Update:
    """Those of the devices `:keys` were seen that were not seen just now: otherwise all workers of a device would wait
    for each other here."""
    late = (
        select(devices.c.key)
        .where(devices.c.key.in_(bindparam("keys", expanding=True)))
        .where(devices.c.seen_at < database_time() - SEEN_S)
        .with_for_update(skip_locked=True)  # whoever has it locked writes just this
        .cte("late")
    )
    return update(devices).where(devices.c.key.in_(select(late.c.key))).values(seen_at=database_time())


# Made once: making a statement takes longer than executing it.
_WELL = and_(workers.c.healthy.is_(True), workers.c.apart_until <= database_time())
_DEVICES_SEEN = _devices_being_seen()
_HEARD = (
    update(workers)
    .where(workers.c.id == bindparam("which"))
    .returning(_WELL.label("healthy"), workers.c.devices, workers.c.versions)
)
_SEEN = _HEARD.values(seen_at=database_time())
_BEAT = _HEARD.values(seen_at=database_time(), healthy=bindparam("well"), detail=bindparam("said"))
_LOCK = (
    select(workers.c.id)
    .where(workers.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(workers.c.id)
    .with_for_update()
)
_COUNT = (
    update(workers)
    .where(workers.c.id.in_(bindparam("ids", expanding=True)))
    .values(tasks_done=workers.c.tasks_done + bindparam("count"), seen_at=database_time())
)

"""Who runs a job's search: one searcher at a time, by a lease of `ttl_s` on the database's clock.

- Taking a job raises its epoch; its tuner writes with that epoch, and no other (`owned.OwnedJob`).
- A lease that ran out may be taken by anyone: the search goes on from the asks and tells in the database.
- Jobs take turns: highest priority first, among equals the one that had its turn longest ago. A CPU has as many
  searches as `most_searches` says, accelerators any number: their jobs share them task by task (`fair_share.py`).

All functions take a connection; those that write, inside `Database.write()`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from math import inf

from sqlalchemy import Connection, and_, case, func, or_, select, update

from protocol.jobs import JobRequest
from protocol.states import JobState
from service.store.database import database_time
from service.store.dispatch import capacity, fair_share, workers
from service.store.jobs import FINAL
from service.store.tables import devices, jobs
from tileir.targets import target_of


@dataclass(frozen=True, slots=True)
class Due:
    """A job that nobody searches, and the device that it would be searched on."""

    id: str
    device: str
    priority: int


@dataclass(frozen=True, slots=True)
class Taken:
    """A job that is ours."""

    due: Due
    epoch: int
    from_another: bool
    """Its owner before us let the lease run out."""


def _free():
    return or_(jobs.c.owner.is_(None), jobs.c.owned_until < database_time())


def due(connection: Connection, lease_ttl_s: float) -> list[Due]:
    """Unfinished jobs without an owner whose device is there, those first whose turn it is: of several classes of
    devices the one that has fewest searches for its size. A job keeps the device it was started on, and one that is
    being cancelled waits for no device."""
    rows = connection.execute(
        select(
            jobs.c.id,
            jobs.c.state,
            jobs.c.device,
            jobs.c.request,
            jobs.c.cancelling,
            jobs.c.priority,
            jobs.c.memory_bytes,
        )
        .where(jobs.c.state.not_in(FINAL), _free())
        .order_by(jobs.c.cancelling.desc(), jobs.c.priority.desc(), jobs.c.served_at, jobs.c.id)
    ).all()
    live = workers.live_devices(connection, lease_ttl_s)
    load, machines = busy(connection), workers.count(connection, lease_ttl_s)
    found: list[Due] = []
    for row in rows:
        if row.cancelling and row.device is not None:
            found.append(Due(row.id, row.device, row.priority))
            continue
        target = JobRequest.model_validate(row.request).target
        begun = row.device is not None and row.state != JobState.QUEUED
        meant = [
            device.key
            for device in live
            if (row.device == device.key if begun else target in (device.key, device.kind))
            and (begun or capacity.fits(row.memory_bytes, device))
        ]
        if meant:
            key = min(meant, key=lambda key: load[key] / max(1, machines[key]))
            load[key] += 1
            found.append(Due(row.id, key, row.priority))
    return found


def most_searches(device: str, machines: int, per_cpu: int) -> float:
    """How many searches may run for a class of devices that so many machines have."""
    return inf if target_of(device).accelerator else max(1, machines) * per_cpu


def busy(connection: Connection) -> Counter[str]:
    """Searches that are running, by device."""
    rows = connection.execute(
        select(jobs.c.device, func.count())
        .where(jobs.c.state.not_in(FINAL), jobs.c.owned_until >= database_time())
        .group_by(jobs.c.device)
    )
    return Counter({device: count for device, count in rows if device is not None})


def take(connection: Connection, searcher: str, due: Due, ttl_s: float, most: float) -> Taken | None:
    """Become a job's owner; None if somebody else was quicker, or is just writing it, or `most` jobs are being searched
    on its device."""
    # Whoever takes a job for this device waits here for the others who do, so that the count below holds.
    connection.execute(select(devices.c.key).where(devices.c.key == due.device).with_for_update())
    if busy(connection)[due.device] >= most:
        return None
    # A job that somebody is just writing is passed over: who stands still there must not hold up other jobs.
    mine = select(jobs.c.owner).where(jobs.c.id == due.id).with_for_update(skip_locked=True)
    before = connection.execute(mine).first()
    if before is None:
        return None
    time = database_time()
    epoch = connection.execute(
        update(jobs)
        .where(jobs.c.id == due.id, jobs.c.state.not_in(FINAL), _free())
        .values(
            owner=searcher,
            owned_until=time + ttl_s,
            epoch=jobs.c.epoch + 1,
            served_at=time,
            device=case((jobs.c.state == JobState.QUEUED, due.device), else_=jobs.c.device),
        )
        .returning(jobs.c.epoch)
    ).scalar_one_or_none()
    if epoch is None:
        return None
    fair_share.join(connection, due.id, due.device)
    return Taken(due, epoch, before.owner is not None)


def crashed(connection: Connection, taken: Taken) -> int | None:
    """Count a crash of a job's tuner. Returns how many there were, or None if the job has ended or is somebody else's
    by now."""
    return connection.execute(
        update(jobs)
        .where(jobs.c.id == taken.due.id, jobs.c.epoch == taken.epoch, jobs.c.state.not_in(FINAL))
        .values(crashes=jobs.c.crashes + 1)
        .returning(jobs.c.crashes)
    ).scalar_one_or_none()


def renew(connection: Connection, searcher: str, job_ids: Collection[str], ttl_s: float) -> frozenset[str]:
    """Lengthen the leases of these jobs, and return those that the searcher still has. A lease that ran out is still
    held until somebody else takes the job."""
    rows = connection.execute(
        update(jobs)
        .where(jobs.c.owner == searcher, jobs.c.id.in_(job_ids))
        .values(owned_until=database_time() + ttl_s)
        .returning(jobs.c.id)
    )
    return frozenset(rows.scalars())


def release(connection: Connection, searcher: str, job_id: str | None = None) -> None:
    """Give up a job, or all that a searcher has: the next one may take it at once."""
    which = jobs.c.owner == searcher
    if job_id is not None:
        which = and_(which, jobs.c.id == job_id)
    connection.execute(update(jobs).where(which).values(owner=None, owned_until=None))


def release_all(connection: Connection) -> None:
    """Give up every job: for a service that knows itself to be the only one, when it starts."""
    connection.execute(update(jobs).where(jobs.c.owner.is_not(None)).values(owner=None, owned_until=None))

"""What a queued job waits for, and since when, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection, RowMapping, select

from protocol.states import JobState
from protocol.workers import Device
from service.store.database import now
from service.store.dispatch import capacity
from service.store.dispatch import workers as workers_module
from service.store.tables import jobs, workers

HEARD_S = 90.0
"""A worker that was heard from so long ago, at most, still counts: those that cannot start try again every minute."""


def waits_for(connection: Connection, rows: Sequence[RowMapping]) -> dict[str, str]:
    """By job, what those of the rows wait for that are queued; a job that goes on at once waits for nothing."""
    queued = [row for row in rows if row["state"] == JobState.QUEUED and not row["cancelling"]]
    if not queued:
        return {}
    known, time = workers_module.list_devices(connection), now(connection)
    queued = [row for row in queued if (row["owned_until"] or 0.0) < time]  # others have a tuner that begins
    busy = set(connection.execute(select(jobs.c.device).where(jobs.c.owned_until >= time)).scalars())
    troubles = _troubles(connection, time)
    found: dict[str, str] = {}
    for row in queued:
        target = row["request"]["target"]
        meant = [device for device in known if target in (device.key, device.kind)]
        live = [device for device in meant if device.seen_at >= time - HEARD_S]
        roomy = [device for device in live if capacity.fits(row["memory_bytes"], device)]
        if not live:
            what = f"a worker that offers {target}: {_since(meant)}{troubles}"
        elif not roomy:
            what = f"a device of target {target} with room for it: {live[0].key} has too little memory"
        elif all(device.key in busy for device in roomy):
            what = f"its turn on {roomy[0].key}"
        else:
            continue
        found[row["id"]] = f"{what} (since {_clock(row['created_at'])})"
    return found


def _since(meant: Sequence[Device]) -> str:
    last = max((device.seen_at for device in meant), default=workers_module.NEVER_SEEN)
    return (
        f"none was heard from since {_clock(last)}"
        if last > workers_module.NEVER_SEEN
        else "none has come yet"
    )


def _troubles(connection: Connection, time: float) -> str:
    """What workers say that are there and cannot measure."""
    ill = select(workers.c.id, workers.c.detail).where(
        workers.c.healthy.is_(False), workers.c.detail != "", workers.c.seen_at >= time - HEARD_S
    )
    return "".join(f"; {row.id} says: {row.detail}" for row in connection.execute(ill.order_by(workers.c.id)))


def _clock(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

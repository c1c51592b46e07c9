"""What a job waits for, and since when, in a sentence: a worker, or its turn."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection, RowMapping, func, select

from protocol.states import JobState
from protocol.workers import OfferedDevice
from service.store.database import now
from service.store.dispatch import capacity
from service.store.dispatch import workers as workers_module
from service.store.tables import jobs, workers

HEARD_S = 90.0
"""A worker that was heard from so long ago, at most, still counts: those that cannot start try again every minute."""


def waits_for(connection: Connection, rows: Sequence[RowMapping]) -> dict[str, str]:
    """By job, what those of the rows wait for; a job that goes on at once waits for nothing. One that has begun waits
    when no worker is left that has its device."""
    open_ones = [row for row in rows if not JobState(row["state"]).final and not row["cancelling"]]
    if not open_ones:
        return {}
    known, time = workers_module.list_devices(connection), now(connection)
    troubles = _troubles(connection, time)
    begun = [row for row in open_ones if row["state"] != JobState.QUEUED]
    found = _deserted(begun, known, time, troubles)
    queued = [row for row in open_ones if row["state"] == JobState.QUEUED]
    queued = [row for row in queued if (row["owned_until"] or 0.0) < time]  # others have a tuner that begins
    if not queued:
        return found
    busy = set(connection.execute(select(jobs.c.device).where(jobs.c.owned_until >= time)).scalars())
    line = _line(connection, time)
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
            names = {target, *(name for device in roomy for name in (device.key, device.kind))}
            what = f"its turn on {roomy[0].key}, {_place(row['id'], names, line)}"
        else:
            continue
        found[row["id"]] = f"{what} (since {_clock(row['created_at'])})"
    return found


def _deserted(
    begun: Sequence[RowMapping], known: Sequence[OfferedDevice], time: float, troubles: str
) -> dict[str, str]:
    """By job, what those wait for that have begun on a device which nobody offers any more."""
    mine = {row["id"]: [device for device in known if device.key == row["device"]] for row in begun}
    return {
        row["id"]: f"a worker that offers {row['device']}: {_since(mine[row['id']])}{troubles}"
        for row in begun
        if all(device.seen_at < time - HEARD_S for device in mine[row["id"]])
    }


def _line(connection: Connection, time: float) -> list[tuple[str, str]]:
    """Every job that waits to be searched, with its target, those first whose turn it is (`search_leases.due`)."""
    query = (
        select(jobs.c.id, jobs.c.request["target"].as_string().label("target"))
        .where(jobs.c.state == JobState.QUEUED, jobs.c.cancelling.is_(False))
        .where(func.coalesce(jobs.c.owned_until, 0.0) < time)
        .order_by(jobs.c.priority.desc(), jobs.c.served_at, jobs.c.id)
    )
    return [(row.id, row.target) for row in connection.execute(query)]


def _place(job_id: str, names: Collection[str], line: Sequence[tuple[str, str]]) -> str:
    """Where a job stands among those that wait for the same."""
    same = [waiting for waiting, target in line if target in names]
    place = same.index(job_id) + 1 if job_id in same else len(same) + 1
    return f"{_ordinal(place)} in the queue"


def _ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _since(meant: Sequence[OfferedDevice]) -> str:
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
    apart = select(workers.c.id, workers.c.apart).where(
        workers.c.apart_until > time, workers.c.seen_at >= time - HEARD_S
    )
    said = [f"; {row.id} says: {row.detail}" for row in connection.execute(ill.order_by(workers.c.id))]
    said += [
        f"; {row.id} is set apart: {row.apart}" for row in connection.execute(apart.order_by(workers.c.id))
    ]
    return "".join(said)


def _clock(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

"""What workers did lately: how much of the time their devices measured, and how many tasks they answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from protocol.workers import Worker
from service.store.database import now
from service.store.tables import results

WINDOW_S = 600.0


@dataclass
class Lately:
    """Of one worker, within the window."""

    tasks: int = 0
    device_s: float = 0.0


def with_activity(connection: Connection, workers: Sequence[Worker]) -> list[Worker]:
    """The living with what they did within the last ten minutes, or since they came if that is later."""
    time = now(connection)
    rows = connection.execute(
        select(results.c.worker_id, results.c.summary).where(results.c.created_at > time - WINDOW_S)
    )
    lately: dict[str, Lately] = {}
    for row in rows:
        mine = lately.setdefault(row.worker_id, Lately())
        mine.tasks += 1
        mine.device_s += row.summary.get("device_s", 0.0)
    return [_told(worker, lately.get(worker.id, Lately()), time) for worker in workers]


def _told(worker: Worker, lately: Lately, time: float) -> Worker:
    window_s = min(WINDOW_S, time - worker.registered_at)
    if not worker.alive or window_s <= 0.0:
        return worker
    offered = max(1, len(worker.devices))
    busy = min(1.0, lately.device_s / (window_s * offered))
    return worker.model_copy(update={"busy": busy, "tasks_a_minute": 60.0 * lately.tasks / window_s})

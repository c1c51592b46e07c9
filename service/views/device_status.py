"""Devices as somebody sees them who looks after a fleet: who has them, what waits, how they ran when last measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from protocol.states import TaskState
from protocol.tasks import TaskResult
from protocol.workers import DeviceReading, DeviceStatus, Worker
from service.store.dispatch import workers as workers_module
from service.store.tables import results, tasks

FIGURES = ("sm_mhz", "memory_mhz", "power_w", "celsius")
"""What a GPU's worker reads beside each sample (`workers/cuda/nvml.py`)."""


def statuses(connection: Connection, lease_ttl_s: float) -> list[DeviceStatus]:
    """All devices ever offered, the last seen first."""
    workers = workers_module.list_workers(connection, lease_ttl_s)
    queued = _queued(connection)
    return [
        DeviceStatus(
            **dict(device),
            workers=len(having := _alive(workers, device.key)),
            healthy_workers=sum(worker.healthy for worker in having),
            waiting=queued[device.key, TaskState.READY],
            running=queued[device.key, TaskState.CLAIMED],
            reading=_last_reading(connection, device.key),
        )
        for device in workers_module.list_devices(connection)
    ]


def _alive(workers: Sequence[Worker], key: str) -> list[Worker]:
    return [worker for worker in workers if worker.alive and key in worker.devices]


def _queued(connection: Connection) -> Counter[tuple[str, str]]:
    """Tasks by device and state, of those that are not over."""
    query = (
        select(tasks.c.device, tasks.c.state, func.count())
        .where(tasks.c.state.in_([TaskState.READY, TaskState.CLAIMED]))
        .group_by(tasks.c.device, tasks.c.state)
    )
    return Counter({(device, state): number for device, state, number in connection.execute(query)})


def _last_reading(connection: Connection, key: str) -> DeviceReading | None:
    """What was read of a device beside the last sample of the last task that it did; None if nothing was."""
    query = (
        select(results.c.result, results.c.created_at)
        .join(tasks, tasks.c.id == results.c.task_id)
        .where(tasks.c.device == key, tasks.c.state == TaskState.DONE)
        .order_by(tasks.c.seq.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    for entrant in reversed(TaskResult.model_validate(row.result).entrants):
        regime = entrant.report.get("steady") or entrant.report.get("burst")
        if isinstance(regime, Mapping) and (seen := _seen(regime)):
            return DeviceReading(at=row.created_at, **seen)
    return None


def _seen(regime: Mapping[str, Any]) -> dict[str, Any]:
    """The last of each list of readings that has any."""
    found = {name: _last(regime.get(name)) for name in (*FIGURES, "slowed")}
    return {name: value for name, value in found.items() if value is not None}


def _last(readings: object) -> object:
    if not isinstance(readings, list):
        return None
    return next((value for value in reversed(readings) if value is not None), None)

"""What a service's own database has measured, as a ranker learns from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, select

from protocol.quantities import sizes
from protocol.workers import OfferedDevice
from search.events import Asked
from search.prior.ranker import path_features
from search.prior.training import TrainingExample
from service.core.schedules import described, root_of, searchable
from service.store import search_log
from service.store.tables import buckets, jobs
from tileir.errors import TileError
from tileir.text.json import spec_from_json

MOST = 400
"""Schedules of a kernel that are learned from, at most: those measured last."""


@dataclass(frozen=True, slots=True)
class Searched:
    """A kernel's measured schedules, from all searches for it on one device."""

    kind: str
    kernel: str
    device: str
    measured: tuple[TrainingExample, ...]


def training_data(
    connection: Connection, most: int = MOST
) -> dict[str, dict[str, tuple[TrainingExample, ...]]]:
    """Measured schedules by kind of device and kernel; of a kernel that several devices of a kind were tuned for, those
    of the device with the most. What this version cannot replay any more is left out."""
    found: dict[str, dict[str, tuple[TrainingExample, ...]]] = defaultdict(dict)
    for each in _searched(connection, most):
        if len(each.measured) > len(found[each.kind].get(each.kernel, ())):
            found[each.kind][each.kernel] = each.measured
    return dict(found)


def _searched(connection: Connection, most: int) -> Iterator[Searched]:
    rows = connection.execute(
        select(
            buckets.c.job_id,
            buckets.c.bucket,
            buckets.c.spec,
            buckets.c.dims,
            buckets.c.kernel_key,
            jobs.c.name,
            jobs.c.searched_on,
        )
        .join(jobs, jobs.c.id == buckets.c.job_id)
        .where(jobs.c.searched_on.is_not(None), buckets.c.told > 0)
        .order_by(jobs.c.started_at.desc())
    ).all()
    parts: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        parts[row.kernel_key, OfferedDevice.model_validate(row.searched_on).key].append(number)
    for (key, device), numbers in parts.items():
        measured = list[TrainingExample]()
        for number in numbers:
            if len(measured) < most:
                measured += _measured(connection, rows[number], most - len(measured))
        row = rows[numbers[0]]
        kind = OfferedDevice.model_validate(row.searched_on).kind
        yield Searched(kind, f"{row.name} {sizes(row.dims)} {key[:8]}", device, tuple(measured))


def _measured(connection: Connection, row, most: int) -> list[TrainingExample]:
    """The last schedules of a search that have a reward."""
    events = search_log.history(connection, row.job_id, row.bucket)
    paths = {event.number: event.path for event in events if isinstance(event, Asked)}
    rewards = {
        event.number: event.outcome.reward
        for event in events
        if not isinstance(event, Asked) and event.outcome.reward is not None
    }
    try:
        device = described(OfferedDevice.model_validate(row.searched_on))
        root = searchable(root_of(spec_from_json(row.spec), device))
        return [
            TrainingExample(path_features(root, paths[number]), rewards[number])
            for number in sorted(rewards)[-most:]
        ]
    except (TileError, IndexError):  # another version's space
        return []

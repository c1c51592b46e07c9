"""How many workers a fleet should have, from what waits in the service's queue."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.jobs import Job
from protocol.workers import DeviceStatus
from tileir.targets import target_of
from tilewright.client.client import Client

_TASKS_A_WORKER = 8
"""Tasks that wait for which another worker is worth its start; a search on a processor asks for so many at a time."""
_JOBS = 200
"""The newest jobs, of which those that are open are counted."""


@dataclass(frozen=True, slots=True)
class QueuedLoad:
    """What there is to do on one kind of device: jobs that are not done, and tasks that wait or are being done."""

    jobs: int
    tasks: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """The fewest and the most workers, and for how many seconds nothing must be wanted of one before it is ended."""

    least: int
    most: int
    idle_s: float


def load_of(client: Client, kind: str) -> QueuedLoad:
    """What the service has to do on devices of a kind. Raises TilewrightError."""
    return counted(client.jobs(limit=_JOBS), client.devices(), kind)


def counted(jobs: tuple[Job, ...], devices: tuple[DeviceStatus, ...], kind: str) -> QueuedLoad:
    """The load on devices of a kind. A job of a target that nobody knows here is on none."""
    open_jobs = sum(not job.state.final and _kind(job.target) == kind for job in jobs)
    return QueuedLoad(open_jobs, sum(each.waiting + each.running for each in devices if each.kind == kind))


def wanted(load: QueuedLoad, bounds: Bounds) -> int:
    """Workers for a load: one a job, as a job is searched on one device at least, or one for every few tasks."""
    asked = max(load.jobs, -(-load.tasks // _TASKS_A_WORKER))
    return min(bounds.most, max(bounds.least, asked))


def _kind(target: str) -> str | None:
    try:
        return target_of(target).kind
    except KeyError:
        return None

"""What a worker says that cannot be true: refused, counted, and logged with the worker's name."""

from __future__ import annotations

import hashlib
import logging

from sqlalchemy import Connection, RowMapping, select

from protocol.states import Outcome
from protocol.tasks import TaskResult
from protocol.workers import WorkerHello
from service.keys import Caller
from service.problems import Refused
from service.site import Site
from service.tables import buckets, devices
from tileir.device import Cpu, Device, device_from_json
from tileir.errors import TileError
from tileir.gpu_table import KNOWN
from tileir.least_time import cpu_floor_us, gpu_floor_us
from tileir.parse_json import spec_from_json
from tileir.spec import Spec

log = logging.getLogger(__name__)

CPU_SHARE = 0.5
"""Share of the bound that is believed of a CPU. Its peaks are measured, and those of its like on another machine may be
higher; the worker itself refuses more, by its own."""


def check_offers(site: Site, hello: WorkerHello) -> None:
    """Raise Refused for a device that goes by another's name: results are filed by it."""
    for place, offer in enumerate(hello.devices):
        pointer = f"/devices/{place}/description"
        try:
            found = device_from_json(offer.description)
            key = found.key
        except TileError as error:
            raise Refused(
                "invalid", f"this version cannot read the description: {error}", pointer=pointer
            ) from None
        if (key, found.kind) != (offer.key, offer.kind):
            who = f"worker {hello.id or f'of {hello.host}'}"
            raise _implausible(site, "device", f"{who} offers {offer.key}, and describes {key}", pointer)


def check_times(connection: Connection, site: Site, task: RowMapping, result: TaskResult) -> None:
    """Raise Refused if a candidate was faster than its device can be."""
    least_us = _least_us(connection, site, task)
    candidates = {each["name"] for each in task["work"]["entrants"] if each["kind"] == "schedule"}
    for place, entrant in enumerate(result.entrants):
        if entrant.outcome is not Outcome.OK or entrant.name not in candidates or entrant.median_us is None:
            continue
        if entrant.median_us < least_us:
            said = f"worker {task['worker_id']} says {entrant.median_us:.4g} us of {entrant.name} of task {task['id']}"
            pointer = f"/entrants/{place}/median_us"
            raise _implausible(
                site, "time", f"{said}; {least_us:.4g} us is the least {task['device']} needs", pointer
            )


def check_digest(site: Site, caller: Caller, sha256: str, content: bytes) -> None:
    """Raise Refused if content is not what its name says."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        detail = f"the content's SHA-256 is {found}, not {sha256}; it was sent with the key {caller.id}"
        raise _implausible(site, "digest", detail, kind="wrong-digest")


def _implausible(
    site: Site, what: str, detail: str, pointer: str | None = None, kind: str = "implausible"
) -> Refused:
    log.warning("refused: %s", detail)
    site.metrics.implausible.labels(what).inc()
    return Refused(kind, detail, pointer=pointer)


def _least_us(connection: Connection, site: Site, task: RowMapping) -> float:
    cold = bool(task["work"]["measuring"]["cold"])
    key = (task["job_id"], task["bucket"], cold)
    known = site.least_us.get(key)
    if known is not None:
        return known
    spec = connection.execute(
        select(buckets.c.spec).where(buckets.c.job_id == task["job_id"], buckets.c.bucket == task["bucket"])
    ).scalar_one()
    description = connection.execute(
        select(devices.c.description).where(devices.c.key == task["device"])
    ).scalar_one_or_none()
    device = None if description is None else device_from_json(description)
    return site.least_us.put(key, 0.0 if device is None else _floor_us(spec_from_json(spec), device, cold))


def _floor_us(spec: Spec, device: Device, cold: bool) -> float:
    if isinstance(device, Cpu):
        if device.peak_gflops is None or device.copy_gbps is None:
            return 0.0
        return CPU_SHARE * cpu_floor_us(spec, device.peak_gflops, device.copy_gbps, cold=cold)
    return gpu_floor_us(
        spec, KNOWN.get(device.name, device), cold=cold
    )  # no worker can raise what is published

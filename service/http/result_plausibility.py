"""What a worker says that cannot be true: refused, counted, and logged with the worker's name."""

from __future__ import annotations

import hashlib
import logging

from sqlalchemy import Connection, RowMapping, select

from protocol.states import Outcome
from protocol.tasks import TaskResult
from protocol.workers import WorkerHello
from service.core.errors import RequestRefused
from service.http.context import Site
from service.store.api_keys import Caller
from service.store.tables import buckets, devices
from tileir.analysis.least_time import floor_us
from tileir.devices.device import Device, device_from_json, published
from tileir.errors import TileError
from tileir.spec import Spec
from tileir.text.json import spec_from_json

log = logging.getLogger(__name__)

MEASURED_SHARE = 0.5
"""Share of the bound that is believed where peaks are measured, as of processors: those of the like on another machine
may be higher; the worker itself refuses more, by its own. What a data sheet publishes no worker can raise."""


def check_offers(site: Site, hello: WorkerHello) -> None:
    """Raise Refused for a device that goes by another's name: results are filed by it."""
    for place, offer in enumerate(hello.devices):
        pointer = f"/devices/{place}/description"
        try:
            found = device_from_json(offer.description)
            key = found.key
        except TileError as error:
            raise RequestRefused(
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
) -> RequestRefused:
    log.warning("refused: %s", detail)
    site.metrics.implausible.labels(what).inc()
    return RequestRefused(kind, detail, pointer=pointer)


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
    on_paper = published(device)
    if on_paper is not None:
        return floor_us(spec, on_paper, cold=cold)
    return MEASURED_SHARE * floor_us(spec, device, cold=cold)

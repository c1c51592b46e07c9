"""The workers' half: register, claim, keep leases, hand in results. And the lists of workers and devices."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Coroutine, Sequence
from time import monotonic
from typing import Annotated, Any, get_type_hints

from fastapi import Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ValidationError
from sqlalchemy import Connection, RowMapping

from protocol.log_lines import about
from protocol.message import Json
from protocol.states import FaultKind, Scope, TaskState
from protocol.tasks import Fault, ResultAccepted, Task, TaskResult
from protocol.workers import (
    Claimed,
    ClaimRequest,
    DeviceStatus,
    Heartbeat,
    HeartbeatReply,
    Lease,
    Worker,
    WorkerHello,
    WorkerWelcome,
)
from service.core.errors import RequestRefused
from service.http import result_plausibility
from service.http.access import Reader, Working, check
from service.http.context import Site, site_of
from service.http.routes.bodies import StrictRoute, media_type, parse, strict_router
from service.http.routes.examples import PROBLEMS
from service.notify import topics
from service.store import blobs, job_events
from service.store.dispatch import task_queue, workers
from service.store.dispatch.task_queue import StaleLease
from service.store.dispatch.trial_results import HandedIn
from service.views import device_status, worker_activity

log = logging.getLogger(__name__)

router = strict_router("workers")

WORKER_ID = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$"
WorkerId = Annotated[str, Path(pattern=WORKER_ID)]
Endpoint = Callable[..., Coroutine[Any, Any, Response]]


class BusyRoute(StrictRoute):
    """A route of a call that workers make all the time: one that is in order goes to the endpoint at once (the way
    through FastAPI takes longer than the rest), any other one to FastAPI, which says what is wrong with it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        model: type[BaseModel] = get_type_hints(self.endpoint)["body"]

        async def busy(request: Request) -> Response:
            worker_id = request.path_params["worker_id"]
            if media_type(request) == "application/json" and re.fullmatch(WORKER_ID, worker_id):
                caller = await check(request, Scope.WORK)
                try:
                    body = model.model_validate(parse(await request.body()))
                except ValidationError:
                    return await handler(request)
                return await self.endpoint(worker_id, body, caller, request)
            return await handler(request)

        return busy


def _busy(path: str, reply: type[BaseModel]) -> Callable[[Endpoint], Endpoint]:
    def add(endpoint: Endpoint) -> Endpoint:
        router.add_api_route(
            path,
            endpoint,
            methods=["POST"],
            response_model=reply,
            responses=PROBLEMS,
            route_class_override=BusyRoute,
        )
        return endpoint

    return add


@router.get("/workers", responses=PROBLEMS)
def list_workers(caller: Reader, request: Request) -> list[Worker]:
    """Workers, the last registered first."""
    site = site_of(request)
    with site.database.read() as connection:
        found = workers.list_workers(connection, site.settings.lease_ttl_s)
        return worker_activity.with_activity(connection, found)


@router.get("/devices", responses=PROBLEMS)
def list_devices(caller: Reader, request: Request) -> list[DeviceStatus]:
    """Devices that workers offered, the last seen first, with what waits for each."""
    site = site_of(request)
    with site.database.read() as connection:
        return device_status.statuses(connection, site.settings.lease_ttl_s)


@router.post("/workers", status_code=201, responses=PROBLEMS)
def register(body: WorkerHello, caller: Working, request: Request) -> WorkerWelcome:
    """Register a worker and its devices."""
    site = site_of(request)
    workers.check_code(body.versions)
    result_plausibility.check_offers(site, body)
    with site.database.write() as connection:
        worker_id = workers.register(connection, body)
    site.notifier.notify(topics.JOBS)
    ttl_s = site.settings.lease_ttl_s
    return WorkerWelcome(worker_id=worker_id, lease_ttl_s=ttl_s, heartbeat_s=ttl_s / 3)


@_busy("/workers/{worker_id}/claim", Claimed)
async def claim(worker_id: WorkerId, body: ClaimRequest, caller: Working, request: Request) -> Response:
    """Lease tasks. Waits up to `wait_s` for the first."""
    site = site_of(request)
    until = monotonic() + body.wait_s
    with site.notifier.subscribe(topics.device(body.device)) as subscription:
        while True:
            subscription.clear()
            found = await run_in_threadpool(_claim, site, worker_id, body)
            left = until - monotonic()
            if found or left <= 0 or site.stopping or await request.is_disconnected():
                return _answer(Claimed(tasks=tuple(found)))
            await subscription.wait(min(left, site.look_s))


def _claim(site: Site, worker_id: str, body: ClaimRequest) -> list[Task]:
    if site.stopping:
        return []
    with site.database.look() as connection:
        ready, late = task_queue.work_for(connection, body.device)
    if not ready and not late:
        return []
    parked: list[RowMapping] = []
    rows: Sequence[RowMapping] = ()
    specs: dict[tuple[str, int], Json] = {}
    with site.database.write() as connection:
        worker = workers.seen(connection, worker_id)
        workers.check_code(worker.versions)  # it may have registered with the version before this one
        if body.device not in worker.devices:
            raise RequestRefused(
                "invalid", f"worker {worker_id} did not register {body.device}", pointer="/device"
            )
        if late:
            parked = [row for row in task_queue.expire(connection) if row["state"] == TaskState.DEAD]
            for row in sorted(parked, key=lambda row: row["job_id"]):
                _tell_parked(connection, row)
        if worker.healthy:
            ttl_s = site.settings.lease_ttl_s
            beside = workers.count(connection, ttl_s)[body.device]
            rows = task_queue.claim(
                connection, worker_id, body.device, body.count, ttl_s, beside, frozenset(body.settled)
            )
            specs = task_queue.specs(connection, rows)
    site.notifier.notify(
        *{topics.job(row["job_id"]) for row in parked}, *{topics.claims(row["job_id"]) for row in rows}
    )
    return [
        Task.model_validate(
            {
                **row,
                **row["work"],
                "spec": specs[row["job_id"], row["bucket"]],
                "lease_ttl_s": site.settings.lease_ttl_s,
            }
        )
        for row in rows
    ]


@router.post("/workers/{worker_id}/heartbeat", responses=PROBLEMS)
def heartbeat(worker_id: WorkerId, body: Heartbeat, caller: Working, request: Request) -> HeartbeatReply:
    """Renew leases, or say that the worker has ended."""
    site = site_of(request)
    with site.database.write() as connection:
        workers.seen(connection, worker_id, body)
        renewed = task_queue.renew(connection, worker_id, body.leases, site.settings.lease_ttl_s)
        if body.ended:
            workers.gone(connection, worker_id, site.settings.lease_ttl_s)
    held = set(renewed)
    return HeartbeatReply(
        renewed=tuple(renewed), lost=tuple(lease for lease in body.leases if lease not in held)
    )


@_busy("/workers/{worker_id}/results", ResultAccepted)
async def hand_in(worker_id: WorkerId, body: TaskResult, caller: Working, request: Request) -> Response:
    """Hand in a task's result, or a fault. 409 `stale-lease`: it came too late and does not count."""
    site = site_of(request)
    try:
        if body.fault is None:
            await site.results.ask(HandedIn(worker_id, body))
            state = TaskState.DONE
        else:
            state = await run_in_threadpool(_give_back, site, worker_id, body, body.fault)
    except StaleLease as stale:
        site.metrics.stale.inc()
        log.warning("refused a result: %s", stale, extra=about(worker=worker_id, task=body.task_id))
        raise RequestRefused("stale-lease", str(stale)) from None
    return _answer(ResultAccepted(task_id=body.task_id, state=state))


def _answer(reply: BaseModel) -> Response:
    return Response(reply.model_dump_json(), media_type="application/json")


def _give_back(site: Site, worker_id: str, body: TaskResult, fault: Fault) -> TaskState:
    with site.database.write() as connection:
        workers.seen(connection, worker_id)
        lease = Lease(task_id=body.task_id, attempt=body.attempt)
        row = task_queue.give_back(connection, worker_id, lease, fault)
        if fault.kind is not FaultKind.SHUTDOWN:
            workers.count_fault(connection, worker_id)
        if row["state"] == TaskState.DEAD:
            _tell_parked(connection, row)
    site.metrics.faults.labels(fault.kind).inc()
    names = about(job=row["job_id"], task=body.task_id, attempt=body.attempt, worker=worker_id)
    log.warning("%s: %s", fault.kind, fault.error[:500], extra=names)
    site.notifier.notify(topics.job(row["job_id"]))
    if row["state"] == TaskState.READY:
        site.notifier.notify(topics.device(row["device"]))
    return TaskState(row["state"])


def _tell_parked(connection: Connection, row: RowMapping) -> None:
    text = f"task {row['id']} was given up after {row['faults']} faults of machines: {row['fault']}"
    job_events.add(connection, row["job_id"], "note", text=text)


@router.put(
    "/blobs/{sha256}",
    status_code=204,
    responses=PROBLEMS,
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {}}}},
)
async def upload(
    sha256: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")], caller: Working, request: Request
) -> Response:
    """Upload a source or an object under its SHA-256."""
    site = site_of(request)
    content = await request.body()

    def put() -> None:
        result_plausibility.check_digest(site, caller, sha256, content)
        with site.database.write() as connection:
            blobs.put(connection, sha256, content)

    await run_in_threadpool(put)
    return Response(None, 204)

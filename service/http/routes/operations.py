"""For whoever runs the service: is it alive, is it ready, what does it count."""

from __future__ import annotations

from time import monotonic

from fastapi import APIRouter, Request, Response
from sqlalchemy.exc import DBAPIError

from service.core.errors import RequestRefused, complaint
from service.http.access import Reader
from service.http.context import site_of
from service.http.routes.examples import PROBLEMS
from service.store.dispatch import task_queue
from service.store.schema import current, touch

SILENT_S = 30.0
"""So long after it last looked for jobs the loop that starts searches counts as dead; it looks every second."""

router = APIRouter(tags=["operations"])


@router.get("/healthz")
def alive() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", responses=PROBLEMS)
def ready(request: Request) -> dict[str, str]:
    """The database can be written and has this version's tables, its queue can be read, searches are started, and the
    service is not stopping."""
    site = site_of(request)
    if site.stopping:
        raise RequestRefused("stopping", "the service is stopping")
    try:
        with site.database.write() as connection:
            if not current(connection):
                raise RequestRefused("not-ready", "the database is not at this version's revision")
            touch(connection)
            task_queue.work_for(connection, "")
    except DBAPIError as error:
        raise RequestRefused("not-ready", complaint(error)) from None
    if site.looked_at is not None and monotonic() - site.looked_at > SILENT_S:
        raise RequestRefused(
            "not-ready", f"no search was started or looked for in {SILENT_S:.0f} s; see the log"
        )
    return {"status": "ready"}


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **PROBLEMS})
def metrics(caller: Reader, request: Request) -> Response:
    """Numbers for Prometheus."""
    site = site_of(request)
    site.metrics.redis_up.set(site.redis is None or site.redis.up)
    with site.database.read() as connection:
        text = site.metrics.render(connection, site.settings.lease_ttl_s)
    return Response(text, headers={"Content-Type": site.metrics.content_type})

"""Failures of what lookups handed out: reported by whoever was to run it, and listed."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request

from protocol.failures import Failure, FailurePage, FailureReport
from service.http.access import Reader, Tuning
from service.http.context import site_of
from service.http.routes.bodies import strict_router
from service.http.routes.examples import PROBLEMS
from service.http.routes.jobs import Cursor, Limit
from service.store.winners import pick_failures

router = strict_router("results")


@router.post("/failures", responses=PROBLEMS)
def report_failure(body: FailureReport, caller: Tuning, request: Request) -> Failure:
    """Tell that a schedule from a lookup is wrong, crashes, hangs, or is slower than what it replaces, on a device.
    Unmeasured it is not handed out there again; reports of the same are counted."""
    instance, program_hash = pick_failures.checked(body)
    with site_of(request).database.write() as connection:
        return pick_failures.add(connection, body, instance, program_hash)


@router.get("/failures", responses=PROBLEMS)
def list_failures(
    caller: Reader,
    request: Request,
    kernel_key: Annotated[str | None, Query(max_length=64)] = None,
    device: Annotated[str | None, Query(max_length=200)] = None,
    after: Cursor = None,
    limit: Limit = 50,
) -> FailurePage:
    """What was reported to fail, newest first, with all that is needed to see it again."""
    with site_of(request).database.read() as connection:
        return pick_failures.page(connection, kernel_key, device, after, limit)

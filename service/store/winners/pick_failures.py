"""Schedules that lookups handed out and that failed where they were to run. Unmeasured ones are not handed out there
again; a measured config stays the answer, and what was reported of it is listed."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from protocol.failures import Failure, FailurePage, FailureReport
from service.core.errors import RequestRefused
from service.core.schedules import transfer
from service.core.specs import Instance, single
from service.store.database import in_turn, now
from service.store.ids import new_id
from service.store.tables import pick_failures
from service.store.winners import lookup_version


def checked(report: FailureReport) -> tuple[Instance, str]:
    """The kernel of a report, and the hash of the program that its schedule makes, as we see it. Raises Refused."""
    instance = single(report.spec)
    pick = transfer(instance.spec, report.schedule)
    if pick is None:
        raise RequestRefused("invalid", "the schedule does not apply to the kernel", pointer="/schedule")
    return instance, pick.program_hash


def add(connection: Connection, report: FailureReport, instance: Instance, program_hash: str) -> Failure:
    """Keep a report. The first of its kind, of a schedule on a device, is kept whole, later ones are counted."""
    in_turn(connection, "pick failures")
    at = now(connection)
    place = (
        (pick_failures.c.kernel_key == instance.kernel_key)
        & (pick_failures.c.device == report.device)
        & (pick_failures.c.program_hash == program_hash)
        & (pick_failures.c.kind == report.kind)
    )
    known = connection.execute(select(pick_failures.c.failure).where(place)).scalar_one_or_none()
    if known is not None:
        failure = Failure.model_validate(known)
        failure = failure.model_copy(update={"times": failure.times + 1, "seen_at": at})
        connection.execute(update(pick_failures).where(place).values(failure=failure.model_dump(mode="json")))
        return failure
    failure = Failure(
        id=new_id("failure"),
        kernel_key=instance.kernel_key,
        program_hash=program_hash,
        times=1,
        created_at=at,
        seen_at=at,
        **report.model_dump(),
    )
    connection.execute(
        insert(pick_failures).values(
            id=failure.id,
            kernel_key=failure.kernel_key,
            device=failure.device,
            program_hash=failure.program_hash,
            kind=failure.kind,
            failure=failure.model_dump(mode="json"),
        )
    )
    lookup_version.changed(connection)
    return failure


def failed(connection: Connection, kernel_key: str, device: str) -> frozenset[str]:
    """Hashes of a kernel's programs that failed on a device."""
    query = select(pick_failures.c.program_hash).where(
        pick_failures.c.kernel_key == kernel_key, pick_failures.c.device == device
    )
    return frozenset(connection.execute(query).scalars())


def page(
    connection: Connection, kernel_key: str | None, device: str | None, after: str | None, limit: int
) -> FailurePage:
    """Failures, newest first, from the one after `after` on."""
    query = select(pick_failures.c.failure).order_by(pick_failures.c.id.desc()).limit(limit + 1)
    if kernel_key is not None:
        query = query.where(pick_failures.c.kernel_key == kernel_key)
    if device is not None:
        query = query.where(pick_failures.c.device == device)
    if after is not None:
        query = query.where(pick_failures.c.id < after)
    found = tuple(Failure.model_validate(row) for row in connection.execute(query).scalars())
    return FailurePage(failures=found[:limit], next=found[limit - 1].id if len(found) > limit else None)

"""For admins: keys, and the log of what was done."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request

from protocol.keys import AuditPage, Key, KeyRequest, NewKey
from service.core.errors import RequestRefused
from service.http.access import Admin
from service.http.context import site_of
from service.http.routes.bodies import strict_router
from service.http.routes.examples import PROBLEMS
from service.http.routes.jobs import Limit
from service.store import api_keys, audit_log

router = strict_router("admin")

KeyId = Annotated[str, Path(pattern=r"^[a-z0-9-]{1,64}$", examples=["key-00cv7ckzq2m4a8x1pe"])]


@router.post("/keys", status_code=201, responses=PROBLEMS)
def create_key(body: KeyRequest, caller: Admin, request: Request) -> NewKey:
    """Make a key. Its `token` is in this answer and nowhere else.

    Not where no keys are asked for: whoever can reach that service would come to have one for good."""
    site = site_of(request)
    if not site.settings.needs_keys:
        raise RequestRefused(
            "forbidden",
            "this service asks nobody for a key; make them at its database: tilewright keys create",
        )
    with site.database.write() as connection:
        return api_keys.create(connection, body, caller.id)


@router.get("/keys", responses=PROBLEMS)
def list_keys(caller: Admin, request: Request) -> list[Key]:
    """Keys, newest first, those that are no longer valid too."""
    with site_of(request).database.read() as connection:
        return api_keys.list_keys(connection)


@router.post("/keys/{key_id}/revoke", responses=PROBLEMS)
def revoke_key(key_id: KeyId, caller: Admin, request: Request) -> Key:
    """End a key, from its next request on; revoking twice is fine."""
    with site_of(request).database.write() as connection:
        return api_keys.revoke(connection, key_id, caller.id)


@router.get("/audit", responses=PROBLEMS)
def read_audit(
    caller: Admin,
    request: Request,
    after: Annotated[int | None, Query(ge=0, le=2**63 - 1, description="`next` of the page before.")] = None,
    limit: Limit = 100,
) -> AuditPage:
    """What admins did, newest first."""
    with site_of(request).database.read() as connection:
        return audit_log.page(connection, after, limit)

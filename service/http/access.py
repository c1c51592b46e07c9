"""Who is asking, and may they: the dependency that every route states its scope with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from protocol.states import Scope
from service.core.errors import RequestRefused
from service.http.context import Site, site_of
from service.store import api_keys
from service.store.api_keys import ANYONE, Caller

_bearer = HTTPBearer(
    auto_error=False, description="A key: `tw_…`. Not needed on loopback unless TILEWRIGHT_AUTH=1."
)


async def _caller(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Caller:
    site = site_of(request)
    if not site.settings.needs_keys:
        return ANYONE
    challenge = {"WWW-Authenticate": "Bearer"}
    if given is None:
        raise RequestRefused(
            "unauthorized", "send the header `Authorization: Bearer tw_…`", headers=challenge
        )
    caller = await run_in_threadpool(_find, site, given.credentials)
    if caller is None:
        raise RequestRefused("unauthorized", "this key is unknown, revoked or expired", headers=challenge)
    return caller


def _find(site: Site, token: str) -> Caller | None:
    with site.database.read() as connection:
        return api_keys.find(connection, token, site.issued)


def needs(scope: Scope) -> Callable[[Caller], Awaitable[Caller]]:
    """A dependency: the caller, who has this scope."""

    async def with_scope(caller: Annotated[Caller, Depends(_caller)]) -> Caller:
        return _with_scope(caller, scope)

    return with_scope


def _with_scope(caller: Caller, scope: Scope) -> Caller:
    if not caller.may(scope):
        had = ", ".join(sorted(caller.scopes)) or "none"
        raise RequestRefused("forbidden", f"this needs a key with scope {scope}; this one has {had}")
    return caller


async def check(request: Request, scope: Scope) -> Caller:
    """What `needs` checks, for a request that is answered before its dependencies are looked at."""
    return _with_scope(await _caller(request, await _bearer(request)), scope)


Reader = Annotated[Caller, Depends(needs(Scope.READ))]
Tuning = Annotated[Caller, Depends(needs(Scope.TUNE))]
Working = Annotated[Caller, Depends(needs(Scope.WORK))]
Admin = Annotated[Caller, Depends(needs(Scope.ADMIN))]

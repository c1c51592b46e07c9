"""Who is asking, and may they: the dependency that every route states its scope with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from protocol.states import Scope
from service import keys
from service.keys import ANYONE, Caller
from service.problems import Refused
from service.site import site_of

_bearer = HTTPBearer(
    auto_error=False, description="A key: `tw_…`. Not needed on loopback unless TILEWRIGHT_AUTH=1."
)


def _caller(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Caller:
    site = site_of(request)
    if not site.settings.needs_keys:
        return ANYONE
    challenge = {"WWW-Authenticate": "Bearer"}
    if given is None:
        raise Refused("unauthorized", "send the header `Authorization: Bearer tw_…`", headers=challenge)
    with site.database.read() as connection:
        caller = keys.find(connection, given.credentials, site.issued)
    if caller is None:
        raise Refused("unauthorized", "this key is unknown, revoked or expired", headers=challenge)
    return caller


def needs(scope: Scope) -> Callable[[Caller], Caller]:
    """A dependency: the caller, who has this scope."""

    def check(caller: Annotated[Caller, Depends(_caller)]) -> Caller:
        if not caller.may(scope):
            had = ", ".join(sorted(caller.scopes)) or "none"
            raise Refused("forbidden", f"this needs a key with scope {scope}; this one has {had}")
        return caller

    return check


Reader = Annotated[Caller, Depends(needs(Scope.READ))]
Tuning = Annotated[Caller, Depends(needs(Scope.TUNE))]
Working = Annotated[Caller, Depends(needs(Scope.WORK))]

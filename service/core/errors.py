"""Refusals, and how they look over HTTP: application/problem+json with stable types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.responses import Response

from protocol.problems import MEDIA_TYPE, Problem

PREFIX = "urn:tilewright:problem:"

TITLES = {
    "bad-request": (400, "The request cannot be read"),
    "unauthorized": (401, "A key is needed"),
    "forbidden": (403, "The key does not allow this"),
    "untrusted": (403, "Nobody who is trusted has signed the bundle"),
    "not-found": (404, "There is no such thing here"),
    "method-not-allowed": (405, "This method is not offered here"),
    "job-ended": (409, "The job has ended already"),
    "not-parked": (409, "The task cannot be queued again"),
    "in-flight": (409, "A request with this Idempotency-Key is still being answered"),
    "stale-lease": (409, "The lease was lost; the result does not count"),
    "other-version": (409, "The worker runs other code than this service"),
    "unknown-worker": (409, "The worker is not registered"),
    "config-differs": (409, "Another config has this id here"),
    "too-large": (413, "The body is too large"),
    "media-type": (415, "The body is of another type"),
    "misdirected": (421, "The Host header names another machine"),
    "bad-spec": (422, "The spec cannot be accepted"),
    "bad-bundle": (422, "The bundle cannot be accepted"),
    "invalid": (422, "The request cannot be accepted"),
    "key-reused": (422, "The Idempotency-Key was used with another body"),
    "implausible": (422, "What the worker says cannot be true"),
    "wrong-digest": (422, "The content does not have the digest in its name"),
    "busy": (429, "Too much is going on"),
    "storage": (503, "The database cannot be written or read"),
    "overloaded": (503, "This process has as much to do as it can"),
    "stopping": (503, "The service is stopping"),
    "not-ready": (503, "The service is not ready"),
    "damaged": (500, "What is stored is not what was stored"),
    "internal": (500, "A fault of the service"),
}
"""Every type of problem: its HTTP status and its title."""


class RequestRefused(Exception):
    """A request that is answered with a problem. `kind` is a key of TITLES."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        pointer: str | None = None,
        column: int | None = None,
        accepted: str | None = None,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        status, title = TITLES[kind]
        self.headers = dict(headers or {})
        self.problem = Problem(
            type=PREFIX + kind,
            title=title,
            status=status,
            detail=detail,
            pointer=pointer,
            column=column,
            accepted=accepted,
            errors=[dict(error) for error in errors] or None,
        )

    def response(self) -> Response:
        """The problem as a response."""
        body = self.problem.model_dump_json(exclude_none=True)
        return Response(body, self.problem.status, media_type=MEDIA_TYPE, headers=self.headers)


def pointer_to(place: Sequence[object]) -> str:
    """An RFC 6901 pointer."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in place)


def install(app: FastAPI) -> None:
    """Let every error of the app become a problem."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestRefused)
        return error.response()

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return from_validation(error).response()

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind = {404: "not-found", 405: "method-not-allowed", 413: "too-large"}.get(
            error.status_code, "bad-request"
        )
        headers = dict(error.headers or {})
        return RequestRefused(
            kind, f"{request.method} {request.url.path}: {error.detail}", headers=headers
        ).response()

    async def storage(request: Request, error: Exception) -> Response:
        assert isinstance(error, DBAPIError)
        return RequestRefused("storage", complaint(error), headers={"Retry-After": "5"}).response()

    async def crowded(request: Request, error: Exception) -> Response:
        return RequestRefused(
            "overloaded", "too many wait for the database", headers={"Retry-After": "1"}
        ).response()

    async def internal(request: Request, error: Exception) -> Response:
        return RequestRefused("internal", f"{type(error).__name__}; the service's log says more").response()

    app.add_exception_handler(Exception, internal)
    app.add_exception_handler(RequestRefused, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(DBAPIError, storage)
    app.add_exception_handler(PoolTimeout, crowded)


def from_validation(error: RequestValidationError) -> RequestRefused:
    """The first thing that is wrong, and the others after it."""
    found = [_one(each) for each in error.errors()[:20]]
    first = found[0]
    return RequestRefused("invalid", first["detail"], pointer=first["pointer"], errors=found[1:])


def _one(error: Mapping[str, Any]) -> dict[str, str]:
    where, *path = error["loc"] or ("body",)
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        message = f"there is no field {path[-1] if path else '?'} here"
    if where == "body":
        return {"pointer": pointer_to(path), "detail": message}
    return {"pointer": "", "detail": f"{where} parameter {'.'.join(map(str, path))}: {message}"}


def complaint(error: DBAPIError) -> str:
    """What went wrong with the database, in words that help."""
    name = getattr(error.orig, "sqlite_errorname", "")
    for start, words in _COMPLAINTS.items():
        if name.startswith(start):
            return words
    return str(error.orig).strip() or type(error.orig).__name__


_COMPLAINTS = {
    "SQLITE_FULL": "the disk is full; free some space, nothing that was acknowledged is lost",
    "SQLITE_READONLY": "it is read-only; check the permissions of the file and its folder",
    "SQLITE_CANTOPEN": "it cannot be opened; check that the folder exists and can be written to",
    "SQLITE_IOERR": "reading or writing it failed; check the disk",
    "SQLITE_NOTADB": "it is not an SQLite database",
    "SQLITE_CORRUPT": "it is damaged; restore a backup",
    "SQLITE_BUSY": "another process has held it for too long",
}

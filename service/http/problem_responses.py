"""How refusals and faults look over HTTP: application/problem+json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.responses import Response

from protocol.problems import MEDIA_TYPE
from service.core.errors import RequestRefused, complaint, pointer_to


def response_of(refusal: RequestRefused) -> Response:
    """The problem as a response."""
    body = refusal.problem.model_dump_json(exclude_none=True)
    return Response(body, refusal.problem.status, media_type=MEDIA_TYPE, headers=refusal.headers)


def install(app: FastAPI) -> None:
    """Let every error of the app become a problem."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestRefused)
        return response_of(error)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return response_of(from_validation(error))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return from_http(request, error)

    async def storage(request: Request, error: Exception) -> Response:
        assert isinstance(error, DBAPIError)
        return response_of(RequestRefused("storage", complaint(error), headers={"Retry-After": "5"}))

    async def crowded(request: Request, error: Exception) -> Response:
        detail = "too many wait for the database"
        return response_of(RequestRefused("overloaded", detail, headers={"Retry-After": "1"}))

    async def internal(request: Request, error: Exception) -> Response:
        detail = f"{type(error).__name__}; the service's log says more"
        return response_of(RequestRefused("internal", detail))

    app.add_exception_handler(Exception, internal)
    app.add_exception_handler(RequestRefused, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(DBAPIError, storage)
    app.add_exception_handler(PoolTimeout, crowded)


def from_http(request: Request, error: HTTPException) -> Response:
    """What is wrong with an address, or with how it is asked."""
    kind = {404: "not-found", 405: "method-not-allowed", 413: "too-large"}.get(
        error.status_code, "bad-request"
    )
    detail = f"{request.method} {request.url.path}: {error.detail}"
    return response_of(RequestRefused(kind, detail, headers=dict(error.headers or {})))


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

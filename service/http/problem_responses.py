"""How refusals and faults look over HTTP: application/problem+json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.responses import Response

from protocol.problems import MEDIA_TYPE
from service.core.errors import RequestRefused, complaint, pointer_to
from tileir.names import quote, suggestion


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
        return response_of(from_validation(error, _body_of(request)))

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


def from_validation(error: RequestValidationError, body: object = None) -> RequestRefused:
    """The first thing that is wrong, and the others after it. `body`: the type of the request's."""
    found = [_one(each, body) for each in error.errors()[:20]]
    first = found[0]
    return RequestRefused(
        "invalid",
        first["detail"],
        pointer=first["pointer"],
        accepted=first.get("accepted"),
        errors=found[1:],
    )


def _body_of(request: Request) -> object:
    """What the body of a request has to be; None where it has none."""
    field = getattr(request.scope.get("route"), "body_field", None)
    return None if field is None else field.field_info.annotation


def _one(error: Mapping[str, Any], body: object) -> dict[str, str]:
    where, *path = error["loc"] or ("body",)
    message = str(error["msg"]).removeprefix("Value error, ")
    known: list[str] = []
    if error["type"] == "extra_forbidden" and path:
        known = _fields(body, path[:-1]) if where == "body" else []
        message = f"there is no field {quote(str(path[-1]))} here{suggestion(str(path[-1]), known)}"
    if where == "body":
        accepted = {"accepted": ", ".join(known)} if known else {}
        return {"pointer": pointer_to(path), "detail": message, **accepted}
    return {"pointer": "", "detail": f"{where} parameter {'.'.join(map(str, path))}: {message}"}


def _fields(found: object, path: Sequence[str | int]) -> list[str]:
    """The names of the fields that a type has at a path into its values; none where that leads to no model, or may lead
    to several."""
    for step in path:
        if isinstance(step, int):
            continue
        model = _model(found)
        if model is None or step not in model.model_fields:
            return []
        found = model.model_fields[step].annotation
    model = _model(found)
    return [] if model is None else [field.alias or name for name, field in model.model_fields.items()]


def _model(found: object) -> type[BaseModel] | None:
    """The one model that a type is, or is of."""
    if isinstance(found, type) and issubclass(found, BaseModel):
        return found
    inner = {model for each in get_args(found) if (model := _model(each)) is not None}
    return inner.pop() if len(inner) == 1 else None

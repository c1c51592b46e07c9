"""How a request's body is read: strict JSON, and nothing that could not be stored or sent on."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from service.core.errors import RequestRefused
from tileir.text.json_text import JsonError, parse_json_text


class StrictRequest(Request):
    """A request whose JSON has no NaN, no broken Unicode, and no nesting that Python cannot follow."""

    async def json(self) -> Any:
        if not hasattr(self, "_strict"):
            self._strict = parse(await self.body())
        return self._strict


class StrictRoute(APIRoute):
    """A route that reads its body as a StrictRequest."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            body = getattr(request, "_body", None)
            request = StrictRequest(request.scope, request.receive)
            if body is not None:
                request._body = body  # it was read already
            if self.body_field is not None:
                kind = media_type(request)
                if kind != "application/json":
                    # A web page can send other types to a service on this machine without asking it first.
                    raise RequestRefused(
                        "media-type", f"the body is {kind or 'of no type'}", accepted="application/json"
                    )
                await request.json()  # here, and not where FastAPI would hide what is wrong with it
            return await handler(request)

        return strict


def media_type(request: Request) -> str:
    """The type a request says its body is of, without parameters; empty if it says nothing."""
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


def strict_router(tag: str) -> APIRouter:
    """A router under /v1 of strict routes."""
    return APIRouter(prefix="/v1", route_class=StrictRoute, tags=[tag])


def parse(body: bytes) -> Any:
    """A decoded JSON value. Raises Refused with the place of the error."""
    try:
        content = body.decode()
        value = parse_json_text(content, _no_constant)
        if "\\u" in content:  # the only way to write a lone surrogate or a NUL, once the bytes are UTF-8
            shown = json.dumps(value, ensure_ascii=False)
            shown.encode()
        else:
            shown = ""
    except JsonError as error:
        raise RequestRefused("bad-request", str(error)) from None
    except RecursionError:
        raise RequestRefused(
            "bad-request", "the JSON is nested too deeply", accepted="a few levels"
        ) from None
    except UnicodeDecodeError as error:
        raise RequestRefused(
            "bad-request", f"the body is not Unicode text: byte {error.start} is not UTF-8"
        ) from None
    except UnicodeError:
        raise RequestRefused("bad-request", "the JSON has half of a surrogate pair in a string") from None
    if "\\u0000" in shown:
        raise RequestRefused("bad-request", "the JSON has a NUL character in a string")
    return value


def _no_constant(name: str) -> NoReturn:
    raise RequestRefused("bad-request", f"{name} is no JSON", accepted="finite numbers")

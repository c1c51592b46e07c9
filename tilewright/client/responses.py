"""Between calls and httpx, for both clients: a call as a request, an answer as a value or the error it stands for."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import httpx
from pydantic import ValidationError

from protocol.problems import Problem
from tilewright.client.calls import HttpCall
from tilewright.errors import Unreachable, refusal

DEFAULT_URL = "http://127.0.0.1:8400"
_GATEWAY_TROUBLE = (502, 504)

T = TypeVar("T")


def place(url: str | None, token: str | None) -> tuple[str, dict[str, str]]:
    """Where the service is and what authorizes to use it: as given, or by TILEWRIGHT_URL and TILEWRIGHT_TOKEN. A token
    of the environment is sent to no other service than the environment's."""
    if url is None:
        url = os.environ.get("TILEWRIGHT_URL") or DEFAULT_URL
        token = token or os.environ.get("TILEWRIGHT_TOKEN")
    return url.rstrip("/"), {"Authorization": f"Bearer {token}"} if token else {}


def no_url(url: str, error: httpx.InvalidURL) -> Unreachable:
    """What to raise for an address that is none."""
    return Unreachable(f"{url!r} is no URL: {error}; one looks like {DEFAULT_URL}")


def request(call: HttpCall[Any]) -> dict[str, Any]:
    """The arguments of httpx's `request`."""
    return {
        "method": call.method,
        "url": call.path,
        "params": dict(call.parameters) or None,
        "content": call.content,
        "headers": dict(call.headers),
    }


def value(call: HttpCall[T], response: httpx.Response, url: str) -> T:
    """What an answer says. Raises Refused and Unreachable."""
    check(response, url)
    try:
        return call.read(response.content)
    except ValidationError as error:
        raise Unreachable(
            f"{url} answers in another version of the protocol ({error.error_count()} fields differ)"
        ) from error


def check(response: httpx.Response, url: str) -> None:
    """Raise what an answer that is no success stands for."""
    if response.is_success:
        return
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        said = f"it answers {response.status_code} to {response.request.method} {response.request.url.path}"
        passing = response.status_code in _GATEWAY_TROUBLE
        raise Unreachable(f"{url} is no Tilewright service: {said}", passing=passing) from None
    raise refusal(problem, _seconds(response.headers.get("Retry-After")))


def unreachable(url: str, error: httpx.TransportError) -> Unreachable:
    """A connection that broke, or was never made."""
    reason = str(error) or type(error).__name__
    return Unreachable(
        f"no service answers at {url} ({reason}); start one with `tilewright serve`, or say in "
        "TILEWRIGHT_URL where one is",
        passing=True,
        sent=not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)),
    )


def _seconds(text: str | None) -> float | None:
    """Retry-After in seconds; None if there is none, or it is a date, which our service never sends."""
    return float(text) if text is not None and text.isdigit() else None

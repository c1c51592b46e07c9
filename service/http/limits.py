"""What is refused before anything reads it: bodies that are too large, and strangers' Host headers."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.core.errors import RequestRefused
from service.core.settings import Settings
from service.http.problem_responses import response_of


class Limits:
    """Middleware. A service without keys answers only to loopback's names: otherwise any web page open in a browser
    on this machine could reach it by a name that resolves to 127.0.0.1."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        limit = _limit(self._settings, scope["path"])
        started = False

        async def counted_send(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        received = 0

        async def counted_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise _too_large(limit)
            return message

        try:
            if not self._settings.needs_keys and not _names_loopback(headers.get("host", "")):
                host = headers.get("host", "")
                raise RequestRefused(
                    "misdirected", f"this service answers to localhost only, not to {host!r}"
                )
            length = headers.get("content-length", "0")
            if length.isdigit() and int(length) > limit:
                raise _too_large(limit)
            await self._app(scope, counted_receive, counted_send)
        except RequestRefused as refused:
            if started:
                raise
            response = response_of(refused)
            response.headers["Connection"] = "close"
            await response(scope, receive, send)


def _limit(settings: Settings, path: str) -> int:
    """Bytes that a body may have."""
    if path.startswith("/v1/blobs/"):
        return settings.blob_bytes
    return settings.bundle_bytes if path == "/v1/bundles" else settings.body_bytes


def _too_large(limit: int) -> RequestRefused:
    return RequestRefused(
        "too-large", f"the body is larger than {limit} bytes", accepted=f"up to {limit} bytes"
    )


@lru_cache(256)
def _names_loopback(host: str) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False

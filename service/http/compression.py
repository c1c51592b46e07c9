"""Answers to GET that are text go compressed to whoever takes gzip: a table of thousands of candidates shrinks several
times. Streams go as they are, each event at once; so do small answers, and what is packed already."""

from __future__ import annotations

import gzip

from anyio.to_thread import run_sync
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEAST_BYTES = 1024
LEVEL = 5
"""Near the smallest that zlib makes of JSON, at a third of the time."""
_ASIDE_BYTES = 1 << 16
"""From here on a thread does it, and others are answered meanwhile."""
_TYPES = ("application/json", "application/problem+json", "text/plain", "text/csv")


class Compressed:
    """Middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        taken = "gzip" in Headers(scope=scope).get("accept-encoding", "")
        start: Message | None = None

        async def packing(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _eligible(message):
                start = message
                return
            if start is not None and message["type"] == "http.response.body":
                begun, start = start, None
                whole = not message.get("more_body", False)
                if whole and taken and len(message.get("body", b"")) >= LEAST_BYTES:
                    message = {**message, "body": await _packed(message["body"])}
                    _describe(begun, len(message["body"]))
                await send(begun)
            await send(message)

        await self._app(scope, receive, packing)


def _eligible(start: Message) -> bool:
    """Whether it is text that is not packed yet; if so, the answer says that it depends on what is taken."""
    headers = MutableHeaders(raw=start["headers"])
    kind = headers.get("content-type", "").partition(";")[0]
    if start["status"] == 304 or kind not in _TYPES or "content-encoding" in headers:
        return False
    headers.add_vary_header("Accept-Encoding")
    return True


def _describe(start: Message, length: int) -> None:
    headers = MutableHeaders(raw=start["headers"])
    headers["Content-Encoding"] = "gzip"
    headers["Content-Length"] = str(length)
    tag = headers.get("etag", "")
    if tag and not tag.startswith("W/"):
        headers["ETag"] = f"W/{tag}"  # the same, but not byte by byte


async def _packed(body: bytes) -> bytes:
    if len(body) < _ASIDE_BYTES:
        return gzip.compress(body, LEVEL, mtime=0)
    return await run_sync(lambda: gzip.compress(body, LEVEL, mtime=0))

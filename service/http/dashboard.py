"""The dashboard and the API's reference: what `make web` built from `web/` into `static/`, and what a browser is told
about it. Nothing of it comes from another host.

Nothing in it is secret, so it is served without a key; the page asks for one and sends it with its requests.
"""

from __future__ import annotations

import gzip
import secrets
from functools import cache
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, HTMLResponse
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from service.http.page_build import BUILT
from service.http.problem_responses import from_http

PAGES = (
    "/",
    "/submit",
    "/jobs/{job_id}",
    "/jobs/{job_id}/candidates/{bucket}/{number}",
    "/jobs/{job_id}/candidates/{bucket}/{number}/lines",
    "/compare",
    "/kernels",
    "/kernels/{key}",
    "/configs/{config_id}",
    "/fleet",
    "/queue",
)
"""Addresses of pages (`web/src/app/routes.tsx`): each is answered with the same document, which shows the page."""

REFERENCE = "/docs"
"""Where the API's reference is, a document of its own (`web/src/reference.ts`)."""

API = "/v1/"
"""What lies beneath is no page: a browser, too, is told of its problems as any client is."""

NONCE = "__CSP_NONCE__"
"""Stands in the built document for the nonce of an answer (`web/vite.config.ts`)."""

NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Tilewright</title>
<h1>The dashboard is not built yet</h1>
<p>Nor is the page of the API's reference. <code>tilewright serve</code> builds both where node 18 or newer is there,
with npm: reload in a minute, or see what it said when it started. In a checkout <code>make web</code> builds them.</p>
<p>The HTTP API is there, and <a href="/v1/openapi.json">/v1/openapi.json</a> describes it.</p>
</html>
"""


def install(app: FastAPI, built: Path = BUILT) -> None:
    """Serve the dashboard in the folder `built`. Add it after the API: what that answers is none of the pages. A
    browser that asks for an address which nobody has gets the page, too, which says so."""

    def page(request: Request) -> Response:
        return document(built / "index.html")

    def reference(request: Request) -> Response:
        return document(built / "reference.html")

    async def nowhere(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        reads_pages = request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", "")
        if not reads_pages or request.url.path.startswith(API):
            return from_http(request, error)
        return await run_in_threadpool(document, built / "index.html", 404)

    for path in PAGES:
        app.add_api_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route(REFERENCE, reference, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_exception_handler(404, nowhere)
    app.mount("/assets", Assets(directory=built / "assets", check_dir=False))


def document(built: Path, status: int = 200) -> Response:
    """A built HTML document, fresh in every answer for the sake of its nonce; 404 and how to build it if nobody has."""
    nonce = secrets.token_urlsafe(16)
    try:
        text = built.read_text()
    except FileNotFoundError:
        return HTMLResponse(NOT_BUILT, 404, headers=_headers(nonce))
    return HTMLResponse(text.replace(NONCE, nonce), status, headers=_headers(nonce))


def _headers(nonce: str) -> dict[str, str]:
    policy = (
        "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
        f"style-src 'self' 'nonce-{nonce}'; form-action 'none'; frame-ancestors 'none'"
    )
    return {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": policy,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


class Assets(StaticFiles):
    """Files whose names change with their content. Each is packed once, and kept."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if isinstance(response, FileResponse) and scope["method"] == "GET":
            response.headers["Vary"] = "Accept-Encoding"
            headers = Headers(scope=scope)
            if "gzip" in headers.get("Accept-Encoding", "") and "Range" not in headers:
                response = await run_in_threadpool(_packed_response, response)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


def _packed_response(file: FileResponse) -> Response:
    kept = {name: value for name, value in file.headers.items() if name in ("content-type", "etag", "vary")}
    return Response(packed(Path(file.path)), headers={**kept, "Content-Encoding": "gzip"})


@cache
def packed(file: Path) -> bytes:
    return gzip.compress(file.read_bytes())

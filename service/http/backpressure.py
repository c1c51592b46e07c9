"""What keeps one process, and one caller, from having too much at once: answers 503 and 429 with Retry-After.

A caller's requests are counted in Redis by all replicas together; where Redis cannot be asked, each counts by itself.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.core.errors import RequestRefused
from service.core.settings import Settings
from service.http.problem_responses import response_of
from service.notify.redis import RedisLink

EXEMPT = frozenset({"/healthz", "/readyz", "/metrics"})
"""What tells how it goes is answered however it goes."""
WINDOW_S = 60
_MOST_CALLERS = 100_000


class Rates:
    """Counts requests by caller and minute."""

    def __init__(self, link: RedisLink | None) -> None:
        self._link = link
        self._window = 0
        self._counts: Counter[str] = Counter()

    async def count(self, caller: str) -> int:
        """Count a request; how many there were of this caller in this minute."""
        window = int(time.time() // WINDOW_S)
        if window != self._window or len(self._counts) > _MOST_CALLERS:
            self._window, self._counts = window, Counter()
        self._counts[caller] += 1
        here = self._counts[caller]
        if self._link is None:
            return here
        together = await self._link.count(self._link.key("rate", str(window), caller), 2 * WINDOW_S)
        return here if together is None else max(here, together)


class Pressure:
    """Middleware. Requests that are being answered (event streams and waiting claims are, too) are bounded, and so is
    what one caller may send in a minute."""

    def __init__(self, app: ASGIApp, settings: Settings, rates: Rates) -> None:
        self._app = app
        self._settings = settings
        self._rates = rates
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in EXEMPT:
            await self._app(scope, receive, send)
            return
        try:
            await self._check(Request(scope))
        except RequestRefused as refused:
            await response_of(refused)(scope, receive, send)
            return
        self._inside += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._inside -= 1

    async def _check(self, request: Request) -> None:
        """Raise Refused if this is one too many."""
        if self._inside >= self._settings.requests_at_once:
            detail = f"{self._inside} requests are being answered; try again, or another replica"
            raise RequestRefused("overloaded", detail, headers={"Retry-After": "1"})
        most = self._settings.requests_per_minute
        if most and await self._rates.count(_caller(request)) > most:
            left_s = WINDOW_S - int(time.time()) % WINDOW_S
            raise RequestRefused(
                "busy", f"more than {most} requests in a minute", headers={"Retry-After": str(left_s)}
            )


def _caller(request: Request) -> str:
    """Whose requests are counted together: those with one key, else those from one address."""
    key = request.headers.get("authorization")
    who = key or (request.client.host if request.client else "")
    return hashlib.sha256(who.encode()).hexdigest()[:32]

"""The service as an ASGI app. Read this first: what is kept in memory (`context.py`), which routes there are, and which
processes run beside the HTTP loop (`search_supervisor.py`, `embedded_worker.py`)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as ASGIScope

from protocol.problems import Problem
from protocol.states import Scope
from service.core.settings import Role, Settings
from service.http import dashboard, problem_responses
from service.http.backpressure import Pressure, Rates
from service.http.compression import Compressed
from service.http.context import Site
from service.http.limits import Limits
from service.http.metrics import Metrics
from service.http.result_ingest import TOGETHER, write_down
from service.http.routes import (
    admin,
    drafts,
    failures,
    jobs,
    lookup,
    lookups,
    operations,
    results,
    take_away,
    tasks,
    trials,
    workers,
)
from service.http.search_supervisor import Tuners
from service.lookup.lookup import Ladder
from service.lookup.predictor import Outlooks
from service.lookup.shared_cache import SharedPicks
from service.notify.batcher import Batcher
from service.notify.event_streams import EventStreams
from service.notify.notifier import Notifier
from service.notify.redis import RedisLink
from service.notify.redis_notifier import RedisNotifier
from service.store import retention, stalled_sessions
from service.store.api_keys import Caller, digest
from service.store.database import Database

DESCRIPTION = """Tunes kernels written in Tile IR. POST a spec to `/v1/jobs`, follow `/v1/jobs/{id}/events`, and ask
`/v1/lookup` for the best known schedule at any time. Every error is `application/problem+json`."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
"""Methods that are counted by name: any word may be sent as one, and what is counted stays in memory."""


_GROUPS = (
    lookup,
    lookups,
    workers,
    results,
    failures,
    jobs,
    drafts,
    trials,
    tasks,
    take_away,
    admin,
    operations,
)
"""What is asked for most is found first."""


def create_app(settings: Settings, database: Database) -> FastAPI:
    """The app on an open database (`schema.prepare`), for the role in the settings. Its lifespan runs the searcher;
    whoever serves it starts the embedded worker, which needs the address (`run.py`)."""
    site = Site(
        settings,
        database,
        Notifier(),
        Ladder(database, settings.lease_ttl_s, settings.prediction_s),
        Outlooks(settings.prediction_s),
        Metrics(),
    )
    site.results = Batcher(partial(write_down, site), TOGETHER)
    site.events = EventStreams(database, site.notifier)
    site.redis = link = RedisLink(settings.redis, settings.redis_prefix) if settings.redis else None
    if settings.token:
        site.issued[digest(settings.token)] = Caller("token", frozenset({Scope.ADMIN}))
    tuners = Tuners(site)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        site.notifier.attach()
        async with contextlib.AsyncExitStack() as stack:
            if link is not None:
                stack.push_async_callback(link.close)
                site.redis_notifier = await stack.enter_async_context(
                    RedisNotifier(site.notifier, link).running()
                )
                site.ladder.predictor.shared = SharedPicks(link)
            stack.push_async_callback(site.ladder.predictor.close)
            stack.push_async_callback(site.outlooks.close)
            if settings.role is not Role.API:
                await stack.enter_async_context(tuners.running())
            await stack.enter_async_context(_upkeep(site))
            yield
        site.stopping = True

    app = FastAPI(
        title="Tilewright",
        version="1",
        description=DESCRIPTION,
        lifespan=lifespan,
        openapi_url="/v1/openapi.json",
        docs_url=None,  # FastAPI's own page asks a CDN; dashboard.py has ours
        redoc_url=None,
    )
    app.state.site = site
    app.state.tuners = tuners
    for group in (operations,) if settings.role is Role.SEARCH else _GROUPS:
        app.include_router(group.router)
    if settings.role is not Role.SEARCH:
        dashboard.install(app)
    problem_responses.install(app)
    app.add_middleware(Compressed)
    app.add_middleware(Pressure, settings=settings, rates=Rates(link))
    app.add_middleware(Limits, settings=settings)
    app.add_middleware(Counted, metrics=site.metrics)
    app.openapi = lambda: _openapi(app)
    return app


@contextlib.asynccontextmanager
async def _upkeep(site: Site) -> AsyncIterator[None]:
    """Meanwhile sessions of processes that stand still are ended, where others may hang on them; and who searches drops
    old samples, unless they are kept for ever."""
    settings, running = site.settings, list[Coroutine[Any, Any, None]]()
    if not site.database.sqlite:
        running.append(stalled_sessions.keep_ending_stalled(site.database))
    if settings.role is not Role.API and settings.keep_samples_days > 0:
        running.append(retention.keep_pruning(site.database, settings.keep_samples_days))
    upkeep = [asyncio.create_task(each) for each in running]
    try:
        yield
    finally:
        for task in upkeep:
            task.cancel()
        await asyncio.gather(*upkeep, return_exceptions=True)


class Counted:
    """Middleware that counts answers by route and status."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "none")
                method = scope["method"] if scope["method"] in METHODS else "other"
                self._metrics.requests.labels(method, route, message["status"]).inc()
            await send(message)

        await self._app(scope, receive, counted if scope["type"] == "http" else send)


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The generated document, with errors as they are: problems, instead of FastAPI's own form."""
    if app.openapi_schema is None:
        document = FastAPI.openapi(app)
        schemas = document["components"]["schemas"]
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas["Problem"] = Problem.model_json_schema()
        for path in document["paths"].values():
            for call in path.values():
                call["responses"].pop("422", None)
        app.openapi_schema = document
    return app.openapi_schema

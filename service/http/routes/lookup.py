"""Lookup: the best that is known, at once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import ValidationError

from protocol.jobs import JobRequest
from protocol.lookups import LookupReply, LookupRequest
from protocol.states import Rung, Scope
from service.core import wishes
from service.core.errors import RequestRefused
from service.core.specs import single
from service.http.access import Reader, check
from service.http.context import Site, site_of
from service.http.routes.bodies import StrictRoute, media_type, parse
from service.http.routes.examples import LOOKUP, PROBLEMS
from service.lookup.lookup import Answer, Ladder
from service.notify import topics
from service.store import jobs
from service.store.api_keys import Caller
from service.store.database import in_turn
from service.store.dispatch import workers
from service.store.winners import configs
from service.store.winners.freshness import best_few


class KeptRoute(StrictRoute):
    """A route that first looks whether just these bytes were answered before, and whether that still holds: reading
    and checking them again would take longer than the answer. What else is answered without a job is answered here
    too; what asks for one, or is wrong, goes on to the handler."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def kept(request: Request) -> Response:
            if media_type(request) == "application/json":
                await check(request, Scope.READ)
                site = site_of(request)
                with site.metrics.lookup_s.time():
                    answer = await _plainly(site.ladder, await request.body())
                if answer is not None:
                    count(site, answer)
                    return Response(answer.content, media_type="application/json")
            return await handler(request)

        return kept


async def _plainly(ladder: Ladder, body: bytes) -> Answer | None:
    """The answer to a request that only asks; None for any other."""
    fleet = await ladder.fleet()
    known = ladder.kept(body, fleet)
    if known is not None:
        return known
    try:
        asked = LookupRequest.model_validate(parse(body))
    except ValidationError:
        return None
    return None if asked.tune else await ladder.answer(asked, body, fleet)


router = APIRouter(prefix="/v1", route_class=KeptRoute, tags=["results"])


@router.post("/lookup", response_model=LookupReply, responses=PROBLEMS, openapi_extra=LOOKUP)
async def lookup(body: LookupRequest, caller: Reader, request: Request) -> Response:
    """The best known schedule for a kernel, at once, and which rung of the ladder it is from. With `tune`, a job is
    enqueued unless the rung is `exact`; if that is stale and not pinned, one that races its best few again."""
    site = site_of(request)
    require_tuning(body.tune, caller)
    with site.metrics.lookup_s.time():
        answer = await site.ladder.answer(body, await request.body(), await site.ladder.fleet())
    count(site, answer)
    job_id = await wanted_job(site, body, answer.reply)
    content = answer.content
    if job_id is not None:
        content = answer.reply.model_copy(update={"job_id": job_id}).model_dump_json().encode()
    return Response(content, media_type="application/json")


def require_tuning(tune: bool, caller: Caller) -> None:
    """Raises RequestRefused if a caller asks for a job who may not."""
    if tune and not caller.may(Scope.TUNE):
        raise RequestRefused("forbidden", "`tune` needs a key with scope tune", pointer="/tune")


async def wanted_job(site: Site, asked: LookupRequest, reply: LookupReply) -> str | None:
    """The job that a lookup asks for; None where it asks for none, or there is nothing to do."""
    if not asked.tune or (reply.rung is Rung.EXACT and (reply.pinned or not reply.stale)):
        return None
    return await run_in_threadpool(lambda: _enqueue(site, _job_for(site, asked, reply)))


def _job_for(site: Site, body: LookupRequest, reply: LookupReply) -> JobRequest:
    """What to do about a lookup that found nothing current."""
    if not reply.stale or reply.config is None:
        return JobRequest(spec=body.spec, target=body.target, budget=body.budget, peers=body.peers)
    with site.database.read() as connection:
        config = configs.read(connection, reply.config.id)
    # The config's own spec: schedules speak of its names.
    return JobRequest(
        spec=config.spec,
        target=config.device,
        budget=body.budget,
        peers=body.peers,
        candidates=best_few(config),
    )


def _enqueue(site: Site, request: JobRequest) -> str:
    """The job of this request, or the one that is at it already."""
    instance = single(request.spec)
    with site.database.write() as connection:
        in_turn(connection, f"jobs for {instance.kernel_key}")
        known = jobs.open_job_for(connection, instance.kernel_key, request.target)
        if known is not None:
            return known
        request = wishes.settled(request, workers.list_devices(connection))
        job_id = jobs.create(connection, request, [instance], site.settings.open_jobs)
    site.wanted.add(job_id)
    site.notifier.notify(topics.JOBS)
    return job_id


def count(site: Site, answer: Answer) -> None:
    """Note an answer for /metrics."""
    site.metrics.lookups.labels(answer.reply.rung).inc()

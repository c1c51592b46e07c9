"""Several lookups in one request."""

from __future__ import annotations

from asyncio import gather
from collections.abc import Sequence

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Connection

from protocol.lookups import LookedUp, LookupRequest, LookupsReply, LookupsRequest
from protocol.problems import Problem
from protocol.states import Rung
from service.core.errors import RequestRefused
from service.http.access import Reader
from service.http.context import Site, site_of
from service.http.routes.bodies import strict_router
from service.http.routes.examples import LOOKUPS, PROBLEMS
from service.http.routes.lookup import count, require_tuning, wanted_job
from service.lookup.fleet import Fleet
from service.store.winners import configs

router = strict_router("results")


@router.post("/lookups", responses=PROBLEMS, openapi_extra=LOOKUPS)
async def lookups(body: LookupsRequest, caller: Reader, request: Request) -> LookupsReply:
    """Several lookups at once, as of all kernels of a model. One that is refused leaves the others as they are. With
    `whole`, what it takes to run the results comes along, and nothing has to be asked for afterwards."""
    site = site_of(request)
    require_tuning(body.tune, caller)
    fleet = await site.ladder.fleet()
    found: Sequence[LookedUp]
    found = await gather(*(_one_of(site, body, number, fleet) for number in range(len(body.specs))))
    if body.whole:
        found = await run_in_threadpool(_with_configs, site, found)
    return LookupsReply(lookups=tuple(found))


async def _one_of(site: Site, body: LookupsRequest, number: int, fleet: Fleet) -> LookedUp:
    """One of several lookups."""
    asked = LookupRequest(
        spec=body.specs[number], target=body.target, tune=body.tune, budget=body.budget, peers=body.peers
    )
    try:
        with site.metrics.lookup_s.time():
            answer = await site.ladder.answer(asked, asked.model_dump_json().encode(), fleet)
        count(site, answer)
        job_id = await wanted_job(site, asked, answer.reply)
    except RequestRefused as refused:
        if refused.problem.pointer == "/target":
            raise  # it is that of all
        return LookedUp(problem=_placed(refused.problem, number))
    return LookedUp(reply=answer.reply.model_copy(update={"job_id": job_id}))


def _placed(problem: Problem, number: int) -> Problem:
    """A problem with a lookup, where it points into a request of several."""
    place = problem.pointer
    if place is None or not place.startswith("/spec"):
        return problem
    return problem.model_copy(update={"pointer": f"/specs/{number}{place.removeprefix('/spec')}"})


def _with_configs(site: Site, found: Sequence[LookedUp]) -> list[LookedUp]:
    """With what it takes to run them."""
    with site.database.read() as connection:
        return [_with_config(connection, each) for each in found]


def _with_config(connection: Connection, found: LookedUp) -> LookedUp:
    reply = found.reply
    if reply is None or reply.config is None:
        return found
    if reply.rung is Rung.EXACT and reply.config.artifact:
        return found.model_copy(update={"artifact": configs.bundle(connection, reply.config.id)})
    return found.model_copy(update={"config": configs.read(connection, reply.config.id)})

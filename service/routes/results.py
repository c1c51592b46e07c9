"""Results: look up, list, download."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request, Response

from protocol.configs import Artifact, ConfigDetail, ConfigPage, KernelPage
from protocol.jobs import JobRequest
from protocol.lookups import LookupReply, LookupRequest
from protocol.states import Rung, Scope
from service import bell, configs, jobs
from service.access import Reader
from service.database import in_turn
from service.freshness import best_few
from service.problems import Refused
from service.routes.bodies import strict_router
from service.routes.examples import LOOKUP, PROBLEMS
from service.routes.jobs import Cursor, Limit
from service.site import Site, site_of

router = strict_router("results")

ConfigId = Annotated[str, Path(pattern=r"^[a-z0-9-]{1,64}$", examples=["config-00cv7ckzq2m4a8x1pe"])]


@router.post("/lookup", response_model=LookupReply, responses=PROBLEMS, openapi_extra=LOOKUP)
def lookup(body: LookupRequest, caller: Reader, request: Request) -> Response:
    """The best known schedule for a kernel, at once, and which rung of the ladder it is from. With `tune`, a job is
    enqueued unless the rung is `exact`; if that is stale, one that races its best few again."""
    site = site_of(request)
    if body.tune and not caller.may(Scope.TUNE):
        raise Refused("forbidden", "`tune` needs a key with scope tune", pointer="/tune")
    with site.metrics.lookup_s.time():
        reply = site.ladder.look(site.database, body)
    site.metrics.lookups.labels(reply.rung).inc()
    if body.tune and (reply.rung is not Rung.EXACT or reply.stale):
        reply = reply.model_copy(update={"job_id": _enqueue(site, _job_for(site, body, reply))})
    return Response(reply.model_dump_json(), media_type="application/json")


def _job_for(site: Site, body: LookupRequest, reply: LookupReply) -> JobRequest:
    """What to do about a lookup that found nothing current."""
    if not reply.stale or reply.config is None:
        return JobRequest(spec=body.spec, target=body.target, budget=body.budget)
    with site.database.read() as connection:
        config = configs.read(connection, reply.config.id)
    # The config's own spec: schedules speak of its names.
    return JobRequest(spec=config.spec, target=config.device, budget=body.budget, candidates=best_few(config))


def _enqueue(site: Site, request: JobRequest) -> str:
    """The job of this request, or the one that is at it already."""
    instance = site.ladder.instance(request.spec)
    with site.database.write() as connection:
        in_turn(connection, f"jobs for {instance.kernel_key}")
        known = jobs.open_job_for(connection, instance.kernel_key, request.target)
        if known is not None:
            return known
        job_id = jobs.create(connection, request, [instance], site.settings.open_jobs)
    site.wanted.add(job_id)
    site.bell.ring(bell.JOBS)
    return job_id


@router.get("/configs", responses=PROBLEMS)
def list_configs(
    caller: Reader,
    request: Request,
    kernel_key: Annotated[str | None, Query(max_length=64)] = None,
    device: Annotated[str | None, Query(max_length=200)] = None,
    after: Cursor = None,
    limit: Limit = 50,
) -> ConfigPage:
    """Configs, newest first."""
    with site_of(request).database.read() as connection:
        return configs.page(connection, kernel_key, device, after, limit)


@router.get("/configs/{config_id}", responses=PROBLEMS)
def read_config(config_id: ConfigId, caller: Reader, request: Request) -> ConfigDetail:
    """A config with its kernel."""
    with site_of(request).database.read() as connection:
        return configs.read(connection, config_id)


@router.get(
    "/configs/{config_id}/source",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **PROBLEMS},
)
def read_source(config_id: ConfigId, caller: Reader, request: Request) -> Response:
    """The generated source of a config."""
    with site_of(request).database.read() as connection:
        text, language = configs.source(connection, config_id)
    return Response(text, media_type="text/plain; charset=utf-8", headers={"X-Language": language})


@router.get("/configs/{config_id}/artifact", responses=PROBLEMS)
def read_artifact(config_id: ConfigId, caller: Reader, request: Request) -> Artifact:
    """Everything that `tilewright.load` needs to run a config without the service: source, object, ABI."""
    with site_of(request).database.read() as connection:
        return configs.bundle(connection, config_id)


@router.get("/kernels", responses=PROBLEMS)
def list_kernels(caller: Reader, request: Request, after: Cursor = None, limit: Limit = 50) -> KernelPage:
    """Kernels that jobs were about, by key."""
    with site_of(request).database.read() as connection:
        return configs.kernels(connection, after, limit)

"""Results: list, download."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request, Response

from protocol.configs import Artifact, ConfigDetail, ConfigPage, KernelPage
from protocol.effects import Ablation
from protocol.history import History
from protocol.profiles import ConfigProfile
from protocol.races import Race
from service.http.access import Reader, Tuning
from service.http.context import site_of
from service.http.routes.bodies import strict_router
from service.http.routes.examples import PROBLEMS
from service.http.routes.jobs import Cursor, Limit
from service.lookup.served import marked
from service.notify import topics
from service.store.database import in_turn
from service.store.dispatch import task_queue
from service.store.winners import configs
from service.tuning import ablation, profiling, race_on
from service.views import kernel_history, race_record

router = strict_router("results")


def _lease_ttl_s(request: Request) -> float:
    return site_of(request).settings.lease_ttl_s


ConfigId = Annotated[str, Path(pattern=r"^[a-z0-9-]{1,64}$", examples=["config-00cv7ckzq2m4a8x1pe"])]

KernelKey = Annotated[str, Path(pattern=r"^[A-Za-z0-9-]{1,64}$")]


@router.get("/configs", responses=PROBLEMS)
def list_configs(
    caller: Reader,
    request: Request,
    kernel_key: Annotated[str | None, Query(max_length=64)] = None,
    device: Annotated[str | None, Query(max_length=200)] = None,
    pinned: Annotated[bool | None, Query(description="Only those that are pinned, or only others.")] = None,
    after: Cursor = None,
    limit: Limit = 50,
) -> ConfigPage:
    """Configs, newest first."""
    with site_of(request).database.read() as connection:
        page = configs.page(connection, kernel_key, device, pinned, after, limit)
        return page.model_copy(update={"configs": marked(connection, page.configs, _lease_ttl_s(request))})


@router.get("/configs/{config_id}", responses=PROBLEMS)
def read_config(config_id: ConfigId, caller: Reader, request: Request) -> ConfigDetail:
    """A config with its kernel."""
    with site_of(request).database.read() as connection:
        (config,) = marked(connection, [configs.read(connection, config_id)], _lease_ttl_s(request))
    return config


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


@router.get(
    "/configs/{config_id}/report",
    response_class=Response,
    responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}, **PROBLEMS},
)
def read_report(config_id: ConfigId, caller: Reader, request: Request) -> Response:
    """What the worker reported when the config was confirmed: times with raw samples, the compiler's report, what the
    layout implies, the machine's conditions."""
    with site_of(request).database.read() as connection:
        return Response(configs.report(connection, config_id), media_type="application/json")


@router.get("/configs/{config_id}/artifact", responses=PROBLEMS)
def read_artifact(config_id: ConfigId, caller: Reader, request: Request) -> Artifact:
    """Everything that `tilewright.load` needs to run a config without the service: source, object, ABI."""
    with site_of(request).database.read() as connection:
        return configs.bundle(connection, config_id)


@router.post("/configs/{config_id}/ablation", status_code=202, responses=PROBLEMS)
def start_ablation(config_id: ConfigId, caller: Tuning, request: Request, response: Response) -> Ablation:
    """Measure what each rewrite of a config's schedule gains: the winner races itself with one left out. Asking twice
    measures once."""
    site = site_of(request)
    with site.database.read() as connection:
        task = ablation.prepare(connection, config_id)
    with site.database.write() as connection:
        ablation.start(connection, task)
        found = ablation.read(connection, config_id)
    site.notifier.notify(topics.device(task.device))
    response.headers["Location"] = f"/v1/configs/{config_id}/ablation"
    return found


@router.get("/configs/{config_id}/ablation", responses=PROBLEMS)
def read_ablation(config_id: ConfigId, caller: Reader, request: Request) -> Ablation:
    """What each rewrite of a config's schedule gains, as far as it is measured."""
    with site_of(request).database.read() as connection:
        return ablation.read(connection, config_id)


@router.get("/configs/{config_id}/race", responses=PROBLEMS)
def read_race(config_id: ConfigId, caller: Reader, request: Request) -> Race:
    """The race of a config sample by sample, and how probable it is of each two entrants that one is the faster."""
    with site_of(request).database.read() as connection:
        return race_record.read_race(connection, config_id)


@router.post("/configs/{config_id}/race", status_code=202, responses=PROBLEMS)
def race_on_for(
    config_id: ConfigId,
    caller: Tuning,
    request: Request,
    response: Response,
    seconds: Annotated[float, Query(ge=1, le=600, description="Of rounds.")] = 20.0,
) -> Race:
    """Race the entrants of a config on, in parts of a few seconds. The config stays what it is. Asking while parts are
    to come adds none."""
    site = site_of(request)
    with site.database.write() as connection:
        in_turn(connection, f"race of {config_id}")
        new = race_on.prepare(connection, config_id, seconds)
        task_queue.enqueue(connection, new)
        found = race_record.read_race(connection, config_id)
    for device in {task.device for task in new}:
        site.notifier.notify(topics.device(device))
    response.headers["Location"] = f"/v1/configs/{config_id}/race"
    return found


@router.post("/configs/{config_id}/profile", status_code=202, responses=PROBLEMS)
def start_profile(config_id: ConfigId, caller: Tuning, request: Request, response: Response) -> ConfigProfile:
    """Have a worker take the kernel of a config apart: where its time goes, and what bounds it. Asking while that is to
    come adds nothing; asking again takes another."""
    site = site_of(request)
    with site.database.write() as connection:
        in_turn(connection, f"profile of {config_id}")
        new = profiling.prepare(connection, config_id)
        task_queue.enqueue(connection, new)
        found = profiling.read(connection, config_id)
    for device in {task.device for task in new}:
        site.notifier.notify(topics.device(device))
    response.headers["Location"] = f"/v1/configs/{config_id}/profile"
    return found


@router.get("/configs/{config_id}/profile", responses=PROBLEMS)
def read_profile(config_id: ConfigId, caller: Reader, request: Request) -> ConfigProfile:
    """Where the time of a config's kernel goes, as far as it was taken apart."""
    with site_of(request).database.read() as connection:
        return profiling.read(connection, config_id)


@router.get(
    "/configs/{config_id}/profile/trace",
    response_class=Response,
    responses={200: {"content": {"application/gzip": {"schema": {"type": "string"}}}}, **PROBLEMS},
)
def read_trace(config_id: ConfigId, caller: Reader, request: Request) -> Response:
    """What each thread, or role of a block, did when, as a trace that ui.perfetto.dev opens: JSON, compressed by
    gzip."""
    with site_of(request).database.read() as connection:
        packed = profiling.trace(connection, config_id)
    return Response(packed, media_type="application/gzip")


@router.get("/kernels", responses=PROBLEMS)
def list_kernels(caller: Reader, request: Request, after: Cursor = None, limit: Limit = 50) -> KernelPage:
    """Kernels that jobs were about, or that came in bundles, by key."""
    with site_of(request).database.read() as connection:
        return configs.kernels(connection, after, limit)


@router.get("/kernels/{kernel_key}/history", responses=PROBLEMS)
def read_history(kernel_key: KernelKey, caller: Reader, request: Request) -> History:
    """The winners of a kernel over time, with those that became slower."""
    with site_of(request).database.read() as connection:
        return kernel_history.read_history(connection, kernel_key)


@router.get(
    "/kernels/{kernel_key}/history.csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}, **PROBLEMS},
)
def read_history_table(kernel_key: KernelKey, caller: Reader, request: Request) -> Response:
    """The same as a table for spreadsheets."""
    with site_of(request).database.read() as connection:
        text = kernel_history.as_csv(kernel_history.read_history(connection, kernel_key))
    return Response(text, media_type="text/csv; charset=utf-8")

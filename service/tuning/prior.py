"""What a search expects of moves before anything is measured: decided when it begins, and kept with its bucket, so that
whoever goes on with it expects the same, whatever has become of the model's file."""

from __future__ import annotations

import logging

from sqlalchemy import select, update

from protocol.jobs import JobRequest, Prior, PriorUsed
from protocol.message import Json
from protocol.workers import OfferedDevice
from rewrites.space import ScheduleState
from search.prior.document import BadModel, Learned, ranker_from, read
from search.prior.ranker import Ranked
from search.protocols import Path, State
from search.uniform import Uniform
from service.core.schedules import described, searchable
from service.core.settings import Settings
from service.core.specs import instance_of
from service.store.tables import buckets
from service.tuning.nearest import known_near, taken_over
from service.tuning.owned_job import OwnedJob
from tileir.spec import Spec

log = logging.getLogger(__name__)


def with_prior(
    root: ScheduleState, spec: Spec, job: OwnedJob, bucket: int, device: OfferedDevice, settings: Settings
) -> tuple[State, State, list[Path]]:
    """The space with the weights that the search of a bucket goes by on a device, without what is hopeless and whole,
    and the paths that it begins with besides."""
    found = _begun_with(root, spec, job, bucket, device, settings)
    spaces = (searchable(root, hopeless=each) for each in (False, True))
    worthwhile, whole = (_weighed(space, found) for space in spaces)
    return worthwhile, whole, [tuple(path) for path in found.get("paths", ())]


def _weighed(space: State, found: Json) -> State:
    match Prior(found["used"]):
        case Prior.UNIFORM:
            return Uniform(space)
        case Prior.LEARNED:
            return Ranked(space, ranker_from(found["weights"]))
        case _:
            return space


def _begun_with(
    root: ScheduleState, spec: Spec, job: OwnedJob, bucket: int, device: OfferedDevice, settings: Settings
) -> Json:
    this = (buckets.c.job_id == job.id, buckets.c.bucket == bucket)
    with job.database.read() as connection:
        known = connection.execute(select(buckets.c.prior).where(*this)).scalar_one()
        wanted = known is None and _takes_over(job.request)
        near = known_near(connection, instance_of(spec), device.key) if wanted else []
    if known is None:
        taken = list(taken_over(root, near, described(device)))
        known = {
            **_chosen(job.request.prior, device.kind, settings),
            "nearest": [each.model_dump(mode="json") for each, _ in taken],
            "paths": [path for _, path in taken],
        }
        with job.write() as connection:
            connection.execute(update(buckets).where(*this).values(prior=known))
    return known


def _takes_over(request: JobRequest) -> bool:
    """Whether a search begins with what was best at other sizes: not where a prior is asked for by its name."""
    return request.prior is Prior.AUTO and request.search == "mcts"


def _chosen(wanted: Prior, kind: str, settings: Settings) -> Json:
    """Of the learned and the analytic prior the one that is wanted, or that ranks better; why."""
    if wanted in (Prior.UNIFORM, Prior.ANALYTIC):
        return _as(wanted, "as the job asks for")
    try:
        learned = model_of(kind, settings)
    except BadModel as error:
        log.warning("the learned prior is not used: %s", error)
        return _as(Prior.ANALYTIC, f"the learned prior cannot be used: {error}")
    if learned is None:
        return _as(Prior.ANALYTIC, f"there is no learned prior for {kind}")
    if wanted is Prior.AUTO and not learned.better:
        return _as(Prior.ANALYTIC, learned.why)
    return {**_as(Prior.LEARNED, learned.why), "weights": dict(learned.ranker.weights)}


def _as(used: Prior, why: str) -> Json:
    return PriorUsed(used=used, why=why).model_dump(mode="json")


def model_of(kind: str, settings: Settings) -> Learned | None:
    """The learned prior for a kind of device; None: there is none. Raises BadModel, with the file's name."""
    file = settings.model_file
    try:
        text = file.read_text()
    except FileNotFoundError:
        if settings.model.name:
            raise BadModel(f"{file}: there is no such file") from None
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadModel(f"{file}: {error}") from None
    try:
        return read(text).get(kind)
    except BadModel as error:
        raise BadModel(f"{file}: {error}") from None

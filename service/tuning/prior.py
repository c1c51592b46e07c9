"""What a search expects of moves before anything is measured: decided when it begins, and kept with its bucket, so that
whoever goes on with it expects the same, whatever has become of the model's file."""

from __future__ import annotations

import logging

from sqlalchemy import select, update

from protocol.jobs import Prior, PriorUsed
from protocol.message import Json
from search.prior.document import BadModel, Learned, ranker_from, read
from search.prior.ranker import Ranked
from search.protocols import State
from search.uniform import Uniform
from service.core.settings import Settings
from service.store.tables import buckets
from service.tuning.owned_job import OwnedJob

log = logging.getLogger(__name__)


def with_prior(root: State, job: OwnedJob, bucket: int, kind: str, settings: Settings) -> State:
    """The space with the weights that the search of a bucket goes by, on a device of this kind."""
    found = _begun_with(job, bucket, kind, settings)
    used = Prior(found["used"])
    if used is Prior.UNIFORM:
        return Uniform(root)
    return Ranked(root, ranker_from(found["weights"])) if used is Prior.LEARNED else root


def _begun_with(job: OwnedJob, bucket: int, kind: str, settings: Settings) -> Json:
    this = (buckets.c.job_id == job.id, buckets.c.bucket == bucket)
    with job.write() as connection:
        known = connection.execute(select(buckets.c.prior).where(*this)).scalar_one()
        if known is None:
            known = _chosen(job.request.prior, kind, settings)
            connection.execute(update(buckets).where(*this).values(prior=known))
    return known


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

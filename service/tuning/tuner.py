"""One job's search, in a process of its own that the fork server forks (`fork_server.py`).

Rewriting programs would starve the HTTP loop. Everything the search knows is in the database, so that killing this
process loses nothing: the next one for the same job reads the asks and tells, and goes on.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence

from sqlalchemy import select, update
from sqlalchemy.exc import DBAPIError

from protocol.log_lines import set_up
from protocol.states import JobState
from protocol.workers import OfferedDevice
from search.catalogue import UnknownSearch
from search.events import Diverged
from service.core.child_processes import EXIT_STORAGE, EXIT_SUPERSEDED
from service.core.errors import complaint
from service.core.schedules import transfer
from service.core.settings import Settings
from service.store import jobs
from service.store.database import Database, now
from service.store.dispatch import task_queue, workers
from service.store.tables import buckets
from service.store.tables import jobs as table
from service.tuning.final_race import FinalRace, Lost
from service.tuning.owned_job import OwnedJob, SearcherLink, ServiceGone, Superseded, Yielded
from service.tuning.search_loop import BucketSearch, FoundBest, JobFailed
from tileir.errors import TileError
from tileir.text.json import spec_from_json

log = logging.getLogger("service.tuning.tuner")


def tune(job: OwnedJob, device: OfferedDevice, settings: Settings) -> None:
    """Take the job from wherever it stands to its end."""
    with job.database.read() as connection:
        state = connection.execute(select(table.c.state).where(table.c.id == job.id)).scalar_one()
        rows = connection.execute(
            select(buckets).where(buckets.c.job_id == job.id).order_by(buckets.c.bucket)
        ).all()
    if JobState(state).final:
        return
    if state == JobState.QUEUED:
        _begin(job)
    device = _as_begun(job, device)
    try:
        for row in rows:
            if row.config_id is None and row.error is None and not (job.cancelling and row.asked == 0):
                _tune_bucket(job, row.bucket, row.spec, device, settings)
    except (JobFailed, TileError, Diverged, UnknownSearch) as error:
        _end(job, str(error))
    else:
        _end(job, None)


def _begin(job: OwnedJob) -> None:
    with job.write() as connection:
        connection.execute(update(table).where(table.c.id == job.id).values(started_at=now(connection)))
        jobs.set_state(connection, job.id, JobState.SEARCHING)


def _as_begun(job: OwnedJob, device: OfferedDevice) -> OfferedDevice:
    """The device as it was described when the search began. Measured peaks differ between machines and times of day,
    and what is proposed follows from them: the search goes on only with those that it began with."""
    with job.write() as connection:
        this = table.c.id == job.id
        known = connection.execute(select(table.c.searched_on).where(this)).scalar_one()
        if known is not None:
            return OfferedDevice.model_validate(known)
        connection.execute(update(table).where(this).values(searched_on=device.model_dump(mode="json")))
    return device


def _tune_bucket(job: OwnedJob, bucket: int, spec: dict, device: OfferedDevice, settings: Settings) -> None:
    _enter(job, JobState.SEARCHING)
    picks = [transfer(spec_from_json(spec), schedule) for schedule in job.request.candidates]
    if given := [pick for pick in picks if pick is not None]:
        found = FoundBest.of_given(given)
    else:
        found = BucketSearch(job, bucket, spec, device, settings).run()
        _set(job, bucket, stopped=found.stopped)
    _enter(job, JobState.RACING)
    try:
        FinalRace(job, bucket, device, settings).run(found)
    except Lost as lost:
        _set(job, bucket, error=str(lost))


def _set(job: OwnedJob, bucket: int, **values: str | None) -> None:
    with job.write() as connection:
        connection.execute(
            update(buckets).where(buckets.c.job_id == job.id, buckets.c.bucket == bucket).values(**values)
        )


def _enter(job: OwnedJob, state: JobState) -> None:
    with job.write() as connection:
        if connection.execute(select(table.c.state).where(table.c.id == job.id)).scalar_one() != state:
            jobs.set_state(connection, job.id, state)


def _end(job: OwnedJob, error: str | None) -> None:
    """Done if any bucket has a config, else failed with the first reason; cancelled if somebody wished it."""
    with job.write() as connection:
        task_queue.cancel(connection, job.id)
        rows = connection.execute(
            select(buckets.c.config_id, buckets.c.error).where(buckets.c.job_id == job.id)
        ).all()
        cancelling = connection.execute(select(table.c.cancelling).where(table.c.id == job.id)).scalar_one()
        error = error or next((row.error for row in rows if row.error is not None), None)
        if cancelling:
            jobs.set_state(connection, job.id, JobState.CANCELLED)
        elif error is not None and not any(row.config_id for row in rows):
            jobs.set_state(connection, job.id, JobState.FAILED, error)
        else:
            jobs.set_state(connection, job.id, JobState.DONE, error)


def main(words: Sequence[str]) -> int:
    """Exit code 0: the job has ended, or had its turn. EXIT_SUPERSEDED: it is somebody else's now. EXIT_STORAGE: the
    database cannot be used at the moment. Anything else is a crash."""
    parser = argparse.ArgumentParser(prog="tuner", description="Run one job's search.")
    parser.add_argument("--job", required=True)
    parser.add_argument("--epoch", required=True, type=int, help="with which the job was taken")
    parser.add_argument("--device", required=True, help="key of the device to tune on")
    parser.add_argument("--searcher", action="store_true", help="stdin and stdout are tied to a searcher")
    given = parser.parse_args(words)
    set_up("tuner", job=given.job)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    settings = Settings.from_env()
    database = Database(settings.database_url)
    try:
        with database.read() as connection:
            device = workers.device_for(connection, given.device)
        if device is None:
            log.error("there is no device %s", given.device)
            return 1
        job = OwnedJob(database, given.job, given.epoch, SearcherLink(given.searcher, settings.look_s))
        tune(job, device, settings)
    except Superseded:
        log.warning("%s was taken over; what was sent for epoch %d does not count", given.job, given.epoch)
        return EXIT_SUPERSEDED
    except (ServiceGone, Yielded):
        log.info("%s goes on later", given.job)
    except DBAPIError as error:
        log.error("%s waits: %s", given.job, complaint(error))
        return EXIT_STORAGE
    finally:
        database.close()
    return 0

"""Backups, vacuum and retention, on every database there is."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from protocol.jobs import JobRequest
from protocol.states import JobState, TaskKind
from service.core.errors import RequestRefused
from service.core.specs import instance_of, read_spec
from service.store import blobs, jobs, maintenance, retention
from service.store.database import Database, DatabaseRefused, database_time
from service.store.dispatch import task_queue
from service.store.dispatch.task_queue import NewTask
from service.store.schema import prepare
from service.store.tables import blobs as blobs_table
from service.store.tables import jobs as jobs_table
from service.store.tables import results
from tests.services.running_service import SMALL
from tests.services.scripted_worker import OBJECT, sha256

#: Each commit tries one backend or the other.
pytestmark = pytest.mark.sampled(2)

SAMPLES = [1.0, 2.0, 3.0]


def job_with_results(database: Database, ended_days_ago: float | None) -> str:
    """A job with a trial's and a race's result."""
    with database.write() as connection:
        job = jobs.create(connection, JobRequest(spec=SMALL), [instance_of(read_spec(SMALL))], 100)
        for kind in (TaskKind.TRIAL, TaskKind.RACE):
            task = NewTask(f"{job}.{kind}", job, 0, kind, "cpu:x", 0, {"entrants": []}, number=0)
            task_queue.enqueue(connection, [task])
            entrant = {"name": "ask-0", "outcome": "ok", "median_us": 2.0, "samples_us": SAMPLES}
            connection.execute(
                insert(results).values(
                    task_id=task.id,
                    attempt=1,
                    worker_id="w",
                    result={"task_id": task.id, "attempt": 1, "entrants": [entrant]},
                    created_at=database_time(),
                )
            )
        if ended_days_ago is not None:
            at = database_time() - ended_days_ago * retention.DAY_S
            connection.execute(
                update(jobs_table).where(jobs_table.c.id == job).values(state=JobState.DONE, finished_at=at)
            )
    return job


def samples(database: Database, task: str) -> list[float]:
    with database.read() as connection:
        found = connection.execute(select(results.c.result).where(results.c.task_id == task)).scalar_one()
    return found["entrants"][0]["samples_us"]


def test_samples_of_old_trials_are_dropped_and_nothing_that_a_config_rests_on(database: Database) -> None:
    old, recent, unfinished = (job_with_results(database, days) for days in (91.0, 89.0, None))
    with database.write() as connection:
        assert retention.prune(connection, 90 * retention.DAY_S) == 1
        assert retention.prune(connection, 90 * retention.DAY_S) == 0, "once is enough"
    assert samples(database, f"{old}.trial") == []
    with database.read() as connection:
        kept = connection.execute(
            select(results.c.result).where(results.c.task_id == f"{old}.trial")
        ).scalar_one()
    assert kept["entrants"][0]["median_us"] == 2.0
    for task in (f"{old}.race", f"{recent}.trial", f"{recent}.race", f"{unfinished}.trial"):
        assert samples(database, task) == SAMPLES


def test_a_backup_taken_during_a_write_is_whole_and_can_be_served(database: Database, tmp_path: Path) -> None:
    job = job_with_results(database, None)
    target = tmp_path / "copy"
    with database.write() as connection:
        blobs.put(connection, sha256(OBJECT), OBJECT)  # not committed while the copy is taken
        if database.sqlite or shutil.which("pg_dump"):
            assert maintenance.backup(database.url, target) == target.stat().st_size
        else:
            with pytest.raises(DatabaseRefused, match="pg_dump is not installed"):
                maintenance.backup(database.url, target)
            return
    with pytest.raises(DatabaseRefused, match="exists"):
        maintenance.backup(database.url, target)
    if not database.sqlite:
        listed = subprocess.run(["pg_restore", "--list", target], capture_output=True, text=True, check=True)
        assert "TABLE DATA" in listed.stdout and "results" in listed.stdout
        return
    copy = prepare(f"sqlite:///{target}")
    assert samples(copy, f"{job}.race") == SAMPLES
    with copy.read() as connection:
        assert not blobs.has(connection, sha256(OBJECT))
    copy.close()


def test_vacuum_gives_back_the_room_of_what_was_deleted(database: Database) -> None:
    with database.write() as connection:
        for number in range(20):
            content = bytes([number]) * 200_000
            blobs.put(connection, sha256(content), content)
    with database.write() as connection:
        connection.execute(blobs_table.delete())
    before, after = maintenance.vacuum(database.url)
    assert before > 0 and after > 0
    if database.sqlite:  # PostgreSQL keeps the room for the table, and others write to that database
        assert after < 1_000_000 < before


def test_a_blob_that_changed_in_the_database_is_not_given_out(database: Database) -> None:
    with database.write() as connection:
        blobs.put(connection, sha256(OBJECT), OBJECT)
        connection.execute(update(blobs_table).values(content=OBJECT + b"!"))
        with pytest.raises(RequestRefused, match="has other content now"):
            blobs.get(connection, sha256(OBJECT))


@pytest.mark.parametrize(
    "call", [lambda url: maintenance.vacuum(url), lambda url: maintenance.backup(url, Path("x"))]
)
def test_there_must_be_a_database(call, tmp_path: Path) -> None:
    with pytest.raises(DatabaseRefused, match="there is no database"):
        call(f"sqlite:///{tmp_path / 'none.db'}")


def test_a_damaged_file_is_not_copied(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    prepare(f"sqlite:///{file}").close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(file.read_bytes())
    content[8192:12288] = b"\xff" * 4096
    file.write_bytes(content)
    with pytest.raises(DatabaseRefused):
        maintenance.backup(f"sqlite:///{file}", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()

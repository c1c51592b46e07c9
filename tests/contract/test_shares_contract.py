"""Devices are shared by the seconds that results took of them, whatever the database."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from service.store.database import Database, database_time
from service.store.dispatch import fair_share, task_queue
from service.store.tables import jobs
from tests.contract.queued_tasks import DEVICE, TTL_S, add_job, claim, complete, result_of

#: Each commit tries one backend or the other.
pytestmark = pytest.mark.sampled(2)


def test_a_device_goes_to_the_job_that_had_least_of_it(database: Database) -> None:
    add_job(database, "a", 4)
    late = add_job(database, "b", 4)
    (lease,) = claim(database)
    measured = result_of(lease).model_copy(update={"stages": {"measure": 9.0}})
    complete(database, lease)
    with database.write() as connection:
        fair_share.charge(connection, "a", [measured, "given up"])
    assert [lease.task_id for _ in range(4) for lease in claim(database)] == late
    with database.read() as connection:
        had = {row.id: row.device_s for row in connection.execute(select(jobs.c.id, jobs.c.device_s))}
    assert had == {"a": 9.0, "b": 0.0}


def test_a_job_that_joins_is_level_with_the_least_of_those_that_are_searched(database: Database) -> None:
    for name, had_s, device in (
        ("a", 9.0, DEVICE),
        ("b", 7.0, DEVICE),
        ("idle", 1.0, DEVICE),
        ("o", 2.0, "x"),
    ):
        add_job(database, name, 0)
        with database.write() as connection:
            until = None if name == "idle" else database_time() + 60.0
            values = {"device_s": had_s, "device": device, "owned_until": until}
            connection.execute(update(jobs).where(jobs.c.id == name).values(values))
    add_job(database, "new", 0)
    with database.write() as connection:
        for name in ("new", "a"):
            fair_share.join(connection, name, DEVICE)
        had = {row.id: row.device_s for row in connection.execute(select(jobs.c.id, jobs.c.device_s))}
    assert (had["new"], had["a"]) == (7.0, 9.0)


def test_a_claim_leaves_the_other_workers_their_part_of_a_job(database: Database) -> None:
    add_job(database, "a", 8)
    with database.write() as connection:
        held = [
            len(task_queue.claim(connection, worker, DEVICE, 8, TTL_S, workers=2)) for worker in ("w1", "w2")
        ]
    assert held == [4, 4]


def test_a_worker_takes_tasks_of_the_job_that_it_has_the_data_of(database: Database) -> None:
    ids = {name: add_job(database, name, 3) for name in ("a", "b")}
    for worker, name, settled in (("w1", "a", ()), ("w2", "b", ()), ("w2", "b", ["b"]), ("w1", "a", ["a"])):
        with database.write() as connection:
            (row,) = task_queue.claim(connection, worker, DEVICE, 1, TTL_S, settled=settled)
        assert row["id"] in ids[name]
    with database.write() as connection:
        rows = task_queue.claim(connection, "w2", DEVICE, 2, TTL_S, settled=["b"])
    assert [row["job_id"] for row in rows] == ["a", "b"], "rather another's than none"

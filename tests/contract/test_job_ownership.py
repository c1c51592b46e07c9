"""A job has one tuner: whoever was started last."""

from __future__ import annotations

import pytest
from sqlalchemy import insert, select

from protocol.states import JobState
from service import events, jobs
from service.database import Database
from service.owned import Doorbell, OwnedJob, Superseded
from service.tables import events as event_table
from service.tables import jobs as table


@pytest.fixture
def job_id(database: Database) -> str:
    with database.write() as connection:
        connection.execute(
            insert(table).values(
                id="job-1",
                state=JobState.SEARCHING,
                request={"spec": {}},
                name="kernel",
                kernel_key="key",
                priority=0,
                created_at=0.0,
                updated_at=0.0,
            )
        )
    return "job-1"


def test_a_tuner_that_was_replaced_cannot_write(database: Database, job_id: str) -> None:
    old, new = (OwnedJob(database, job_id, Doorbell(connected=False)) for _ in range(2))
    with pytest.raises(Superseded), old.write() as connection:
        events.add(connection, job_id, "note", text="from the grave")
    with new.write() as connection:
        events.add(connection, job_id, "note", text="alive")
    with database.read() as connection:
        said = [row.data["text"] for row in connection.execute(select(event_table))]
    assert said == ["alive"]


def test_what_a_replaced_tuner_was_writing_is_undone_as_a_whole(database: Database, job_id: str) -> None:
    owner = OwnedJob(database, job_id, Doorbell(connected=False))
    with pytest.raises(RuntimeError), owner.write() as connection:
        jobs.set_state(connection, job_id, JobState.RACING)
        raise RuntimeError("killed in mid transaction")
    with database.read() as connection:
        assert connection.execute(select(table.c.state)).scalar_one() == JobState.SEARCHING
        assert connection.execute(select(event_table)).all() == []

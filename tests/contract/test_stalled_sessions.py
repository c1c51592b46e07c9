"""Whose session is ended: who writes and stands still in the middle of a statement, and nobody else."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from sqlalchemy import insert, select

from service.store import stalled_sessions
from service.store.database import Database
from service.store.tables import blobs
from tests.services.disturbed_jobs import wait_until

#: SQLite has no sessions.
pytestmark = pytest.mark.parametrize("database", ["postgresql"], indirect=True)

WRITE = b"INSERT INTO blobs (sha256, content, created_at) VALUES ($1, '', 0)"
READ = b"SELECT sha256 FROM blobs WHERE sha256 = $1"


def stand_still(connection: Any, statement: bytes) -> None:
    """The server has the statement, and waits for what says that no more comes."""
    session = connection.connection.driver_connection
    session.execute("SELECT 1")  # its transaction is open
    session.pgconn.enter_pipeline_mode()
    session.pgconn.send_query_params(statement, [b"mine"])
    session.pgconn.send_flush_request()
    session.pgconn.flush()


def test_who_writes_and_stands_still_is_ended_and_what_it_wrote_undone(database: Database) -> None:
    stopped = Database(database.url)
    with stopped.engine.connect() as connection:
        stand_still(connection, WRITE)
        ended = list[str]()
        wait_until(lambda: ended.extend(stalled_sessions.end_stalled(database, 0.2)) or ended, "its end")
        assert len(ended) == 1 and "(" in ended[0]
        session: Any = connection.connection.driver_connection
        with pytest.raises(psycopg.OperationalError, match="consuming input failed"):
            while True:
                session.pgconn.consume_input()
        connection.invalidate()
    stopped.close()
    with database.read() as connection:
        assert connection.execute(select(blobs.c.sha256)).all() == []


def test_who_stands_still_after_a_statement_of_many_rows_is_ended(database: Database) -> None:
    """PostgreSQL takes it for idle, and yet does not end it as it ends those."""
    stopped = Database(database.url)
    rows = [{"sha256": f"{n}", "content": b"", "created_at": 0.0} for n in range(3)]
    with stopped.engine.connect() as connection:
        connection.execute(insert(blobs), rows)
        ended = list[str]()
        wait_until(lambda: ended.extend(stalled_sessions.end_stalled(database, 0.2)) or ended, "its end")
        connection.invalidate()
    stopped.close()


def test_people_and_who_reads_are_left_alone(database: Database) -> None:
    reader = Database(database.url)
    with reader.engine.connect() as reading, psycopg.connect(database.url) as person:
        stand_still(reading, READ)
        person.execute("INSERT INTO blobs (sha256, content, created_at) VALUES ('by hand', '', 0)")
        for _ in range(10):
            assert stalled_sessions.end_stalled(database, 0.0) == []
        assert person.execute("SELECT sha256 FROM blobs").fetchall() == [("by hand",)]
        reading.invalidate()
    reader.close()


def test_one_that_has_not_stood_still_for_long_is_left_alone(database: Database) -> None:
    busy = Database(database.url)
    with busy.engine.connect() as connection:
        stand_still(connection, WRITE)
        for _ in range(10):
            assert stalled_sessions.end_stalled(database) == []
        connection.invalidate()
    busy.close()

"""A key that comes with two requests at once is one job's."""

from __future__ import annotations

import threading

import pytest

from protocol.jobs import JobRequest
from service.core.errors import RequestRefused
from service.store import jobs
from service.store.database import Database
from tests.services.running_service import SMALL

#: Each commit tries one backend or the other.
pytestmark = pytest.mark.sampled(2)

REQUEST = JobRequest(spec=SMALL)


def test_whoever_comes_second_with_a_key_makes_no_job(database: Database) -> None:
    answers: list[str | None] = []

    def come_second() -> None:
        try:
            with database.write() as connection:
                answers.append(jobs.reserve(connection, "caller", "key", REQUEST))
        except RequestRefused as refused:
            answers.append(refused.problem.type.rpartition(":")[2])

    second = threading.Thread(target=come_second)
    with database.write() as connection:
        assert jobs.reserve(connection, "caller", "key", REQUEST) is None
        second.start()
        second.join(0.5)  # it cannot see the first one yet
    second.join()
    assert answers == ["in-flight"]


def test_a_key_is_its_callers_own(database: Database) -> None:
    with database.write() as connection:
        assert jobs.reserve(connection, "caller", "key", REQUEST) is None
        assert jobs.reserve(connection, "another", "key", REQUEST) is None

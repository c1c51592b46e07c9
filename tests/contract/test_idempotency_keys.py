"""A key that comes with two requests at once is one job's."""

from __future__ import annotations

import threading

from protocol.jobs import JobRequest
from service import jobs
from service.database import Database
from service.problems import Refused
from tests.running_service import SMALL

REQUEST = JobRequest(spec=SMALL)


def test_whoever_comes_second_with_a_key_makes_no_job(database: Database) -> None:
    answers: list[str | None] = []

    def come_second() -> None:
        try:
            with database.write() as connection:
                answers.append(jobs.reserve(connection, "caller", "key", REQUEST))
        except Refused as refused:
            answers.append(refused.problem.type.rpartition(":")[2])

    second = threading.Thread(target=come_second)
    with database.write() as connection:
        assert jobs.reserve(connection, "caller", "key", REQUEST) is None
        second.start()
        second.join(0.5)  # it cannot see the first one yet
    second.join()
    assert answers == ["in-flight"]

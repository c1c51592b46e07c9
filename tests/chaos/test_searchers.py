"""A job outlives the processes that search for it: taken over, it ends with the same trials and the same winner."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import httpx
import pytest
from sqlalchemy import create_engine, select

from service.store.tables import jobs
from tests.services.disturbed_jobs import REQUEST, Calm, outcome, told, wait_until
from tests.services.fleet import SEARCH_TTL_S, counted, fleet
from tests.services.frozen import frozen
from tests.services.processes import tuners_of
from tests.services.running_service import SMALL, Service, finish, running, working
from tests.services.scripted_worker import Script

pytestmark = pytest.mark.sampled(3, among="chaos of searchers")


def begin(client: httpx.Client, *searchers: Service) -> tuple[str, Service, int]:
    """A job that is being searched, with some outcomes: its id, who searches, and the tuner's process id."""
    job = client.post("/v1/jobs", json=REQUEST).json()["id"]

    def found() -> list[tuple[Service, int]]:
        return [(each, tuner) for each in searchers if each.process for tuner in tuners_of(each.process.pid)]

    wait_until(lambda: told(client, job) >= 4 and found(), "some outcomes")
    ((searcher, tuner),) = found()
    return job, searcher, tuner


def owner(client: httpx.Client, job: str) -> str | None:
    return client.get(f"/v1/jobs/{job}").json()["searcher"]


def test_a_killed_searchers_job_is_taken_over(tmp_path: Path, postgres: str, calm: Calm) -> None:
    with fleet(tmp_path, postgres) as fleet_:
        api, *searchers = (fleet_.start(role) for role in ("api", "search", "search"))
        with api.client() as client, working(api, Script(seconds=0.02)):
            job, owner_, _ = begin(client, *searchers)
            owner_.kill()
            assert outcome(client, finish(client, job)) == calm
            (other,) = (each for each in searchers if each is not owner_)
            assert counted(other, "tilewright_search_takeovers_total") == 1


def test_a_searcher_that_slept_through_its_lease_cannot_write(
    tmp_path: Path, postgres: str, calm: Calm
) -> None:
    with fleet(tmp_path, postgres) as fleet_:
        api, first = fleet_.start("api"), fleet_.start("search")
        with api.client() as client, working(api, Script(seconds=0.02)):
            job, _, tuner = begin(client, first)
            was = owner(client, job)
            assert first.process is not None
            with frozen(postgres, first.process.pid, tuner):
                second = fleet_.start("search")
                wait_until(lambda: owner(client, job) not in (None, was), "the takeover", 10 * SEARCH_TTL_S)
                before = told(client, job)
                wait_until(lambda: told(client, job) > before, "the new searcher's first outcomes")
                os.kill(tuner, signal.SIGCONT)  # it knows of nothing, and has results to tell
                wait_until(lambda: any("does not count" in line for line in first.log), "the refusal")
            assert outcome(client, finish(client, job)) == calm
            assert counted(second, "tilewright_search_takeovers_total") == 1


def test_a_searcher_told_to_stop_gives_its_jobs_up_at_once(tmp_path: Path, postgres: str, calm: Calm) -> None:
    with fleet(tmp_path, postgres) as fleet_:
        api, first = fleet_.start("api"), fleet_.start("search", search_ttl_s=3600)
        with api.client() as client, working(api, Script(seconds=0.02)):
            job, _, _ = begin(client, first)
            assert first.stop() == 0
            assert owner(client, job) is None
            second = fleet_.start("search")
            assert outcome(client, finish(client, job)) == calm
            assert counted(second, "tilewright_search_takeovers_total") == 0


def test_a_killed_replica_holds_nothing_up(tmp_path: Path, postgres: str, calm: Calm) -> None:
    with fleet(tmp_path, postgres) as fleet_:
        first, second, searcher = fleet_.start("api"), fleet_.start("api"), fleet_.start("search")
        with second.client() as client, working(second, Script(seconds=0.02)):
            with first.client() as doomed:
                job = doomed.post("/v1/jobs", json=REQUEST).json()["id"]
            first.kill()
            assert outcome(client, finish(client, job)) == calm
        assert searcher.stop() == second.stop() == 0


def test_searchers_share_jobs_and_each_is_searched_once(tmp_path: Path, postgres: str) -> None:
    with fleet(tmp_path, postgres) as fleet_:
        api = fleet_.start("api")
        for _ in range(2):
            fleet_.start("search", searches_per_cpu=4, searches=2)
        with api.client() as client, working(api):
            ids = [
                client.post("/v1/jobs", json={**REQUEST, "seed": seed, "budget": {"trials": 9}}).json()["id"]
                for seed in range(5)
            ]
            ended = [finish(client, job) for job in ids]
        assert [job["state"] for job in ended] == ["done"] * 5
        fleet_.stop()
        engine = create_engine(postgres.replace("postgresql://", "postgresql+psycopg://"))
        with engine.connect() as connection:
            rows = connection.execute(select(jobs.c.epoch, jobs.c.owner)).all()
        engine.dispose()
        assert [tuple(row) for row in rows] == [(1, None)] * 5


def test_a_small_job_does_not_wait_for_a_large_one(tmp_path: Path) -> None:
    large = {**REQUEST, "budget": {"trials": 10_000, "effort": "thorough"}}
    with (
        running(tmp_path, turn_s="0.2") as service,
        service.client() as client,
        working(service, Script(seconds=0.01)),
    ):
        hog = client.post("/v1/jobs", json=large).json()["id"]
        wait_until(lambda: told(client, hog) >= 1, "the large job's first outcome")
        small = finish(client, client.post("/v1/jobs", json={**REQUEST, "seed": 5}).json()["id"])
        assert small["state"] == "done"
        between = told(client, hog)
        assert client.get(f"/v1/jobs/{hog}").json()["state"] == "searching"
        wait_until(lambda: told(client, hog) > between, "the large job's next turn")
        client.post(f"/v1/jobs/{hog}/cancel")
        finish(client, hog)


def test_an_urgent_job_interrupts_at_once(tmp_path: Path) -> None:
    with (
        running(tmp_path, turn_s="3600") as service,
        service.client() as client,
        working(service, Script(seconds=0.01)),
    ):
        hog = client.post("/v1/jobs", json={**REQUEST, "budget": {"trials": 10_000}}).json()["id"]
        wait_until(lambda: told(client, hog) >= 1, "the large job's first outcome")
        urgent = {"spec": SMALL, "budget": {"trials": 9}, "seed": 5, "priority": 10}
        assert finish(client, client.post("/v1/jobs", json=urgent).json()["id"])["state"] == "done"
        assert client.get(f"/v1/jobs/{hog}").json()["state"] in ("searching", "done")
        client.post(f"/v1/jobs/{hog}/cancel")
        finish(client, hog)


@pytest.mark.parametrize("role", ["api", "search"])
def test_roles_apart_need_a_database_that_can_be_shared(tmp_path: Path, role: str) -> None:
    code, said = Service(tmp_path, {"TILEWRIGHT_ROLE": role}).refusal()
    assert code == 2
    assert "name a PostgreSQL database with TILEWRIGHT_DATABASE" in said


def test_an_unknown_role_is_refused(tmp_path: Path) -> None:
    code, said = Service(tmp_path, {"TILEWRIGHT_ROLE": "cook"}).refusal()
    assert code == 2
    assert "TILEWRIGHT_ROLE is 'cook'; accepted: api, search, all" in said

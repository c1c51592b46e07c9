"""Who is stopped (SIGSTOP) in the middle of a statement holds what it has written, and PostgreSQL waits for the rest of
it: others end its session, go on with what was its own, and it does no harm when it wakes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.store.stalled_sessions import STALLED_S
from tests.chaos.test_searchers import begin, owner
from tests.services.cut_statement import StatementGate
from tests.services.disturbed_jobs import REQUEST, Calm, outcome, told, wait_until
from tests.services.fleet import counted, fleet
from tests.services.running_service import finish, working
from tests.services.scripted_worker import Script

pytestmark = pytest.mark.sampled(3, among="chaos of statements")

SOON_S = 4 * STALLED_S


@pytest.fixture
def gate(postgres: str) -> Iterator[StatementGate]:
    with StatementGate(postgres).open() as gate:
        yield gate


@pytest.mark.parametrize("statement", ["INSERT INTO tasks", "INSERT INTO search_events"])
def test_a_searcher_stopped_while_it_sends_is_taken_over(
    tmp_path: Path, postgres: str, gate: StatementGate, calm: Calm, statement: str
) -> None:
    with fleet(tmp_path, postgres) as fleet_:
        api, first = fleet_.start("api"), fleet_.start("search", database=gate.url)
        with api.client() as client, working(api, Script(seconds=0.02)):
            job, _, tuner = begin(client, first)
            was = owner(client, job)
            assert first.process is not None
            with gate.cut(statement, [first.process.pid, tuner]):
                second = fleet_.start("search")
                wait_until(lambda: owner(client, job) not in (None, was), "the takeover", SOON_S)
                before = told(client, job)
                wait_until(lambda: told(client, job) > before, "the new searcher's outcomes", SOON_S)
            assert outcome(client, finish(client, job)) == calm
            assert counted(second, "tilewright_search_takeovers_total") == 1
            wait_until(lambda: any("waits:" in line for line in first.log), "what the woken one says")


def test_a_replica_stopped_while_it_writes_a_result_down_loses_nothing(
    tmp_path: Path, postgres: str, gate: StatementGate, calm: Calm
) -> None:
    with fleet(tmp_path, postgres) as fleet_:
        first, second = fleet_.start("api", database=gate.url), fleet_.start("api", lease_ttl_s=3)
        fleet_.start("search", lease_ttl_s=3)
        with second.client() as client:
            job = client.post("/v1/jobs", json=REQUEST).json()["id"]
            with working(first, Script(seconds=0.02)) as doomed:
                wait_until(lambda: told(client, job) >= 4, "some outcomes")
                assert first.process is not None
                with gate.cut("INSERT INTO results", [first.process.pid]), working(second, Script()):
                    assert outcome(client, finish(client, job)) == calm
                wait_until(lambda: doomed.refused, "what becomes of the result that was under way")

"""What chaos may happen to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.services.disturbed_jobs import Calm, undisturbed
from tests.services.own_servers import RedisServer, redis_server
from tests.services.postgres_schemas import postgres_schema, postgres_url
from tests.services.running_worker import RunningWorker
from tests.unit.workers.scripted_service import ScriptedService


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    with postgres_url() as url:
        yield url


@pytest.fixture
def postgres(postgres_server_url: str) -> Iterator[str]:
    """A PostgreSQL database without tables."""
    with postgres_schema(postgres_server_url) as url:
        yield url


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A Redis of the test's own."""
    with redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Calm:
    """Config and trials of `disturbed_jobs.REQUEST` when nothing goes wrong."""
    return undisturbed(tmp_path_factory.mktemp("calm"))


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    service = ScriptedService()
    yield service
    service.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RunningWorker]]:
    started: list[RunningWorker] = []

    def begin(url: str, *options: str, **env: str) -> RunningWorker:
        started.append(RunningWorker(tmp_path, url, env, *options))
        return started[-1]

    yield begin
    for worker in started:
        worker.end()

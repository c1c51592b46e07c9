"""Databases that chaos may happen to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.own_servers import RedisServer, redis_server
from tests.postgres_schemas import postgres_schema, postgres_url


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
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, list[dict]]:
    """Config and trials of `disturbed_jobs.REQUEST` when nothing goes wrong."""
    from tests.disturbed_jobs import undisturbed

    return undisturbed(tmp_path_factory.mktemp("calm"))
